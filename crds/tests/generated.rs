//! The committed CRDs are the ones that the types make, and they are what an API server and its clients can take.

use std::path::Path;

use serde_json::Value;

/// Client-side apply keeps the whole object in an annotation; all annotations together have 256 KiB.
const MAX_JSON_BYTES: usize = 200 * 1000;

#[test]
fn committed_files_are_current() {
    for (file, crd) in agentd_crds::schema::all() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("generated").join(file);
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        let current = serde_saphyr::to_string(&crd).unwrap();
        assert!(
            committed == current,
            "{file} is stale: run `cargo run -p agentd-crds --bin crdgen crds/generated`"
        );
        assert_eq!(
            serde_saphyr::from_str::<Value>(&committed).unwrap(),
            crd,
            "{file} reads back as it was written"
        );
    }
}

#[test]
fn p13_each_crd_is_small_enough_for_client_side_apply() {
    for (file, crd) in agentd_crds::schema::all() {
        let bytes = serde_json::to_vec(&crd).unwrap().len();
        assert!(bytes < MAX_JSON_BYTES, "{file}: {bytes} bytes");
    }
}

/// Every node of a schema with its path.
fn walk(path: String, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(&path, schema);
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        walk(format!("{path}.{name}"), property, visit);
    }
    if let Some(items) = schema.get("items") {
        walk(format!("{path}[]"), items, visit);
    }
    if let Some(values @ Value::Object(_)) = schema.get("additionalProperties") {
        walk(format!("{path}.*"), values, visit);
    }
}

#[test]
fn every_node_is_typed_and_every_list_says_how_it_merges_and_how_long_it_gets() {
    let mut faults = Vec::new();
    for (file, crd) in agentd_crds::schema::all() {
        let schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
        walk(file.to_owned(), schema, &mut |path, node| {
            let open = [
                "x-kubernetes-preserve-unknown-fields",
                "x-kubernetes-int-or-string",
            ]
            .iter()
            .any(|key| node.get(*key) == Some(&Value::Bool(true)));
            if node.get("type").is_none() && !open {
                faults.push(format!("{path}: no type"));
            }
            if node.get("nullable").is_some() {
                faults.push(format!("{path}: nullable"));
            }
            if let Some(format) = node.get("format").and_then(Value::as_str)
                && !["int32", "int64", "date-time"].contains(&format)
            {
                faults.push(format!("{path}: format {format} is unknown to the API server"));
            }
            // Inside the types of Kubernetes itself its own choices stand.
            let foreign = path.contains(".extraIngress[]") || path.contains(".extraEgress[]");
            if node.get("type") == Some(&Value::from("array")) && !foreign {
                for key in ["x-kubernetes-list-type", "maxItems"] {
                    if node.get(key).is_none() {
                        faults.push(format!("{path}: no {key}"));
                    }
                }
            }
        });
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_shape_of_api_md() {
    let agents = agentd_crds::schema::agents();
    let servers = agentd_crds::schema::mcp_servers();
    assert_eq!(agents.pointer("/spec/names/shortNames/0").unwrap(), "agd");
    assert_eq!(servers.pointer("/spec/names/shortNames/0").unwrap(), "mcps");
    let version = agents.pointer("/spec/versions/0").unwrap();
    assert_eq!(
        version["subresources"]["scale"],
        serde_json::json!({
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector"
        })
    );
    let columns: Vec<&str> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        columns,
        [
            "READY",
            "REASON",
            "MODEL",
            "TOOLS",
            "LAST-RUN",
            "URL",
            "SUSPENDED",
            "AGE"
        ]
    );
    for crd in [&agents, &servers] {
        assert_eq!(crd.pointer("/spec/names/categories/0").unwrap(), "agentd");
        assert_eq!(crd.pointer("/spec/scope").unwrap(), "Namespaced");
        let schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
        assert_eq!(
            schema["properties"]["status"]["default"],
            serde_json::json!({ "observedGeneration": -1 })
        );
        let rule = schema["x-kubernetes-validations"][0]["rule"].as_str().unwrap();
        assert_eq!(
            rule,
            "self.metadata.name.matches('^[a-z]([-a-z0-9]{0,44}[a-z0-9])?$')"
        );
    }
}

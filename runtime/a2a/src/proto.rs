//! Proto3 JSON: who reads it takes a field by its JSON name and by its name in the proto, who writes it uses the first
//! (section 5.5 of the specification). Pure.

use serde_json::{Map, Value};

/// Members whose content is the caller's own: nothing in them is a field.
const FREE: [&str; 2] = ["data", "metadata"];

/// Gives the fields of a request their JSON names. One that has both names keeps what its JSON name says.
pub(crate) fn json_names(params: &mut Value) {
    match params {
        Value::Object(fields) => {
            let foreign: Vec<String> = fields.keys().filter(|name| name.contains('_')).cloned().collect();
            for name in foreign {
                rename(fields, &name);
            }
            for (name, value) in fields {
                if !FREE.contains(&name.as_str()) {
                    json_names(value);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(json_names),
        _ => {}
    }
}

fn rename(fields: &mut Map<String, Value>, name: &str) {
    if let Some(value) = fields.remove(name) {
        let known = fields.entry(json_name(name)).or_insert(Value::Null);
        if known.is_null() {
            *known = value;
        }
    }
}

/// `history_length` to `historyLength`.
pub(crate) fn json_name(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut all, word| {
        let mut letters = word.chars();
        all.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        all.push_str(letters.as_str());
        all
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_have_their_json_names_and_what_is_the_callers_stays() {
        let mut params = json!({
            "message": {
                "message_id": "m", "taskId": "t", "task_id": "other", "contextId": null, "context_id": "c", "metadata": {"my_key": {"a_b": 1}},
                "parts": [{"data": {"a_b": [{"c_d": 1}]}, "media_type": "application/json"}, {"text": "a_b"}],
            },
            "configuration": {"history_length": 1, "return_immediately": true},
        });
        json_names(&mut params);
        let expected = json!({
            "message": {
                "messageId": "m", "taskId": "t", "contextId": "c", "metadata": {"my_key": {"a_b": 1}},
                "parts": [{"data": {"a_b": [{"c_d": 1}]}, "mediaType": "application/json"}, {"text": "a_b"}],
            },
            "configuration": {"historyLength": 1, "returnImmediately": true},
        });
        assert_eq!(params, expected);
    }

    #[test]
    fn a_name_of_nothing_but_lines_is_one_too() {
        for (name, json) in [
            ("_", ""),
            ("a_", "a"),
            ("_a", "A"),
            ("a__b", "aB"),
            ("page_size", "pageSize"),
        ] {
            assert_eq!(json_name(name), json);
        }
    }
}

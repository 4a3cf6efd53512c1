//! Whether an object that the API server gives holds what was applied: everything we say is there, in the API server's
//! spelling, and what we do not say (defaults, status, others' fields) may be anything.
//!
//! It may say no where the two mean the same; that costs one apply that changes nothing. It never says yes where the
//! API server holds another value.

use serde_json::Value;

/// Digits that a quantity may have, so that no product below overflows.
const QUANTITY_DIGITS: usize = 18;

/// Whether `live` holds all of `wanted`.
pub(super) fn contains(live: &Value, wanted: &Value) -> bool {
    holds(live, wanted, false)
}

/// `quantities`: the texts are quantities, which the API server rewrites.
fn holds(live: &Value, wanted: &Value, quantities: bool) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| match live.get(key) {
                Some(live) => holds(
                    live,
                    wanted,
                    quantities || matches!(key.as_str(), "requests" | "limits" | "sizeLimit"),
                ),
                // The API server leaves out what is empty.
                None => is_empty(wanted),
            })
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| holds(live, wanted, quantities))
        }
        (Value::String(live), Value::String(wanted)) => {
            live == wanted
                || (quantities && matches!((quantity(live), quantity(wanted)), (Some(a), Some(b)) if a == b))
        }
        _ => live == wanted,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// A Kubernetes quantity in thousandths: the API server rewrites `1000m` as `1` and `0.5` as `500m`.
fn quantity(text: &str) -> Option<i128> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(split)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || whole.len() + fraction.len() > QUANTITY_DIGITS {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let multiplier: i128 = match unit {
        "m" => 1,
        "" => 1000,
        "k" => 1_000_000,
        "M" => 1_000_000_000,
        "G" => 1_000_000_000_000,
        "T" => 1_000_000_000_000_000,
        "Ki" => 1000 << 10,
        "Mi" => 1000 << 20,
        "Gi" => 1000 << 30,
        "Ti" => 1000 << 40,
        _ => return None,
    };
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let scaled = digits.checked_mul(multiplier)?;
    (scaled % scale == 0).then_some(scaled / scale)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_and_foreign_fields_do_not_matter_and_our_fields_do() {
        let wanted = json!({"spec": {"ports": [{"port": 8443}], "selector": {"a": "b"}, "egress": []}});
        let live = json!({"spec": {"ports": [{"port": 8443, "protocol": "TCP"}], "selector": {"a": "b", "x": "y"}}, "status": {}});
        assert!(contains(&live, &wanted));
        let edited = json!({"spec": {"ports": [{"port": 1}], "selector": {"a": "b"}}});
        assert!(!contains(&edited, &wanted));
        let longer = json!({"spec": {"ports": [{"port": 8443}, {"port": 2}], "selector": {"a": "b"}}});
        assert!(!contains(&longer, &wanted));
        assert!(!contains(&json!({}), &wanted));
    }

    #[test]
    fn quantities_compare_by_value_and_other_texts_by_letter() {
        let compare = |key: &str, live: &str, wanted: &str| {
            contains(&json!({key: {"cpu": live}}), &json!({key: {"cpu": wanted}}))
        };
        for (live, wanted) in [
            ("1", "1000m"),
            ("500m", "0.5"),
            ("1Gi", "1024Mi"),
            ("1500m", "1.5"),
            ("1k", "1000"),
        ] {
            assert!(compare("requests", live, wanted), "{live} {wanted}");
            assert!(!compare("env", live, wanted), "{live} {wanted}");
        }
        for (live, wanted) in [
            ("1", "2"),
            ("1Gi", "1G"),
            ("a", "b"),
            ("1.0.0", "1.0"),
            ("", "0"),
            ("1x", "1"),
        ] {
            assert!(!compare("limits", live, wanted), "{live} {wanted}");
        }
    }
}

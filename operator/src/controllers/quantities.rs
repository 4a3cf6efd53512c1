//! Amounts of resources, as Kubernetes reads them: the API server answers an object with an amount that it cannot read
//! with an error of its own, not of the object's, so they are read here first. Pure.

use std::collections::BTreeMap;

use agentd_crds::shared::Resources;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::problem::Problem;

/// The units of Kubernetes; an exponent may stand instead.
const UNITS: [&str; 16] = [
    "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
];

/// What is wrong with amounts of a spec's `path`.
pub(super) fn check(path: &str, resources: Option<&Resources>) -> Vec<Problem> {
    let Some(Resources { limits, requests }) = resources else {
        return Vec::new();
    };
    [("limits", limits), ("requests", requests)]
        .into_iter()
        .flat_map(|(list, amounts)| faults(&format!("spec.{path}.{list}"), amounts))
        .collect()
}

fn faults(path: &str, amounts: &BTreeMap<String, Quantity>) -> Vec<Problem> {
    amounts
        .iter()
        .filter(|(_, amount)| !is_quantity(&amount.0))
        .map(|(name, amount)| {
            Problem::invalid(format!(
                "{path}[{name}]: `{}` is no amount; write a number with a unit, such as 500m, 2 or 1Gi",
                amount.0
            ))
        })
        .collect()
}

/// Whether Kubernetes can read it: a sign, digits with at most one point, and a unit or an exponent.
fn is_quantity(text: &str) -> bool {
    let number = unsigned(text);
    let end = number
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(number.len());
    let Some((digits, unit)) = number.split_at_checked(end) else {
        return false;
    };
    let points = digits.chars().filter(|c| *c == '.').count();
    digits.len() > points && points <= 1 && (UNITS.contains(&unit) || is_exponent(unit))
}

fn is_exponent(unit: &str) -> bool {
    unit.strip_prefix(['e', 'E']).is_some_and(|exponent| {
        let exponent = unsigned(exponent);
        // The API server counts it in 32 bits.
        exponent.bytes().all(|byte| byte.is_ascii_digit()) && exponent.parse::<u16>().is_ok()
    })
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_read_as_kubernetes_reads_them() {
        for text in [
            "0", "1", "500m", "1Gi", "0.5", ".5", "5.", "+1", "-1", "1e3", "1E3", "1e-3", "2E", "100n", "1k",
        ] {
            assert!(is_quantity(text), "{text}");
        }
        for text in [
            "", "lots", "1GB", "1gi", "1 Gi", " 1", "1.2.3", ".", "Gi", "1K", "1ki", "--1", "1e", "1e3Gi",
            "1e+-3", "0x10", "١", "1\n",
        ] {
            assert!(!is_quantity(text), "{text}");
        }
    }

    #[test]
    fn each_wrong_amount_is_named() {
        let resources = serde_json::from_value::<Resources>(
            json!({"limits": {"memory": "lots", "cpu": "1"}, "requests": {"cpu": "1 core"}}),
        );
        let problems = check("resources", Some(&resources.unwrap()));
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "spec.resources.limits[memory]: `lots` is no amount; write a number with a unit, such as 500m, 2 or 1Gi",
                "spec.resources.requests[cpu]: `1 core` is no amount; write a number with a unit, such as 500m, 2 or 1Gi",
            ]
        );
        assert_eq!(check("resources", None), []);
    }
}

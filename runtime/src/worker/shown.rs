//! Names and globs of a document as what a turn is shown. Pure.

use agentd_agent::Shown;
use agentd_config::filter::ToolFilter;

/// Shows what one of the globs matches.
pub fn shown(globs: &[String]) -> Shown {
    // Validation refused a glob that is none; should one come here, it lets nothing in.
    match ToolFilter::new(Some(globs), &[]) {
        Ok(filter) => Shown::by(move |name| filter.admits(name)),
        Err(_) => Shown::by(|_| false),
    }
}

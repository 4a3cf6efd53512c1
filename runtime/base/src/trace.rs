//! W3C trace context (Trace Context level 1, `traceparent`): where in which trace something happens. Pure. Guarantees:
//! what others wrote is read strictly and bounded, and goes on only as we write it ourselves; a run has the same place in
//! its trace whatever the attempt and whichever process asks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Of versions to come, which may say more: several times what this one has.
const LONGEST: usize = 256;

/// A span and the trace that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TraceContext {
    /// Never 0.
    trace: u128,
    /// Never 0.
    span: u64,
    sampled: bool,
}

/// It is no `traceparent`. The text is not repeated: anybody may have written it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no traceparent of W3C trace context")]
pub struct NoTraceContext;

impl TraceContext {
    /// Of a run: a span in the trace that it is part of, else in a trace of its own, which is the run's id where that is
    /// one of ours.
    pub fn of_run(run_id: &str, parent: Option<Self>) -> Self {
        let digest = crate::digest::hex(run_id.as_bytes());
        let part = |range: std::ops::Range<usize>| digest.get(range).unwrap_or_default();
        // One of 2^128 and one of 2^64 digests are none.
        let own = || {
            let id = Uuid::try_parse(run_id).map_or(0, |id| id.as_u128());
            let ids = [id, u128::from_str_radix(part(0..32), 16).unwrap_or_default()];
            ids.into_iter().find(|id| *id != 0).unwrap_or(1)
        };
        Self {
            trace: parent.map_or_else(own, |parent| parent.trace),
            span: u64::from_str_radix(part(48..64), 16).unwrap_or_default().max(1),
            sampled: parent.is_none_or(|parent| parent.sampled),
        }
    }

    /// 32 hexadecimal digits.
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace)
    }

    /// 16 hexadecimal digits.
    pub fn span_id(self) -> String {
        format!("{:016x}", self.span)
    }

    /// The same two as numbers.
    pub const fn ids(self) -> (u128, u64) {
        (self.trace, self.span)
    }

    /// Whether somebody keeps the trace.
    pub const fn is_sampled(self) -> bool {
        self.sampled
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.sampled);
        write!(f, "00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }
}

impl FromStr for TraceContext {
    type Err = NoTraceContext;

    fn from_str(text: &str) -> Result<Self, NoTraceContext> {
        if text.len() > LONGEST {
            return Err(NoTraceContext);
        }
        let mut parts = text.split('-');
        let mut next = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            let is_hex = part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            u128::from_str_radix(part, 16).ok().filter(|_| is_hex)
        };
        let (version, trace, span, flags) = (next(2), next(32), next(16), next(2));
        let (Some(version), Some(trace), Some(span), Some(flags)) = (version, trace, span, flags) else {
            return Err(NoTraceContext);
        };
        let span = u64::try_from(span).map_err(|_| NoTraceContext)?;
        let is_known = match version {
            0 => parts.next().is_none(),
            version => version != 0xff,
        };
        if !is_known || trace == 0 || span == 0 {
            return Err(NoTraceContext);
        }
        Ok(Self {
            trace,
            span,
            sampled: flags & 1 == 1,
        })
    }
}

impl From<TraceContext> for String {
    fn from(context: TraceContext) -> Self {
        context.to_string()
    }
}

impl TryFrom<String> for TraceContext {
    type Error = NoTraceContext;

    fn try_from(text: String) -> Result<Self, NoTraceContext> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_run_is_a_trace_of_its_own_or_a_span_of_another() {
        let run = "01a2344a-11c7-7638-8534-036a30d188e8";
        let own = TraceContext::of_run(run, None);
        assert_eq!(own.trace_id(), "01a2344a11c776388534036a30d188e8");
        assert_eq!(own, TraceContext::of_run(run, None));
        assert_eq!(
            own.to_string(),
            format!("00-{}-{}-01", own.trace_id(), own.span_id())
        );
        let parent: TraceContext = GIVEN.parse().unwrap();
        let within = TraceContext::of_run(run, Some(parent));
        assert_eq!(within.trace_id(), parent.trace_id());
        assert_eq!(within.span_id(), own.span_id());
        assert_ne!(within.span_id(), parent.span_id());
        for other in ["x", "", "00000000-0000-0000-0000-000000000000"] {
            let context = TraceContext::of_run(other, None);
            assert_eq!(context.to_string().parse(), Ok(context), "{other}");
        }
    }

    #[test]
    fn what_is_not_sampled_stays_so() {
        let parent: TraceContext = GIVEN.replace("-01", "-fe").parse().unwrap();
        assert!(!parent.is_sampled());
        assert!(
            TraceContext::of_run("r", Some(parent))
                .to_string()
                .ends_with("-00")
        );
    }

    #[test]
    fn a_traceparent_is_read_strictly() {
        let parsed = |text: &str| text.parse::<TraceContext>().map(|context| context.to_string());
        assert_eq!(parsed(GIVEN), Ok(GIVEN.to_owned()));
        // Of a version to come what this one knows.
        let later = GIVEN.replacen("00", "cc", 1);
        assert_eq!(parsed(&later), Ok(GIVEN.to_owned()));
        assert_eq!(
            parsed(&format!("{later}-what-the-future-will-be-like")),
            Ok(GIVEN.to_owned())
        );
        for wrong in [
            String::new(),
            GIVEN.to_uppercase(),
            GIVEN.replacen("00", "ff", 1),
            GIVEN.replacen("00", "0", 1),
            GIVEN.replace("b7ad6b7169203331", "0000000000000000"),
            GIVEN.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            GIVEN.replace("0af7", "+af7"),
            GIVEN.replace("0af7", "0ax7"),
            GIVEN.replace("0af7", "0aé"),
            GIVEN.replace("-01", "-1"),
            GIVEN.replace("-01", ""),
            format!("{GIVEN}-"),
            format!("{GIVEN}0"),
            format!(" {GIVEN}"),
            format!("{GIVEN},{GIVEN}"),
            format!("{later}0"),
            format!("{later}-{}", "x".repeat(LONGEST)),
        ] {
            assert_eq!(parsed(&wrong), Err(NoTraceContext), "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_read_is_written_and_read_again(text in "\\PC{0,80}|[0-9a-f-]{50,60}|[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?") {
            if let Ok(context) = text.parse::<TraceContext>() {
                proptest::prop_assert_eq!(context.to_string().parse(), Ok(context));
                let json = serde_json::to_string(&context).unwrap();
                proptest::prop_assert_eq!(serde_json::from_str::<TraceContext>(&json).unwrap(), context);
            }
        }
    }
}

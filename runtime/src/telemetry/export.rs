//! The way of spans to a collector: the SDK's OTLP exporter over our own HTTP client, so that a collector is dialled by
//! the rules of every other destination.

use std::time::Duration;

use agentd_config::document::{Connection, Otel};
use agentd_mcp::Outbound;
use agentd_net::{Declared, Destination, HttpClient};
use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use tokio::runtime::Handle;

/// One export. A collector that needs longer costs spans, never a turn.
const EXPORT: Duration = Duration::from_secs(10);
/// A collector answers with a few counts.
const ANSWER_BYTES: usize = 64 * 1024;

/// An exporter to the declared collector.
///
/// # Errors
/// When the endpoint cannot be dialled as written.
pub(super) fn exporter(otel: &Otel, outbound: &Outbound) -> Result<SpanExporter, String> {
    let base = otel.endpoint.trim_end_matches('/');
    let declared = Declared::Model {
        allow_plaintext: true,
    };
    let destination = Destination::declared(base, declared).map_err(|error| error.to_string())?;
    let client = outbound
        .client(destination, &Connection::default(), EXPORT)
        .map_err(|error| error.to_string())?;
    SpanExporter::builder()
        .with_http()
        .with_http_client(Guarded {
            client,
            runtime: Handle::current(),
        })
        .with_protocol(Protocol::HttpJson)
        .with_endpoint(format!("{base}/v1/traces"))
        .with_timeout(EXPORT)
        .build()
        .map_err(|error| error.to_string())
}

/// Our client, for an exporter that has a thread of its own and no runtime in it.
struct Guarded {
    client: HttpClient,
    runtime: Handle,
}

impl std::fmt::Debug for Guarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guarded").finish_non_exhaustive()
    }
}

#[async_trait]
impl opentelemetry_http::HttpClient for Guarded {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = async move {
            let answer = client.send(request).await?;
            let body = answer.body.bytes_within(ANSWER_BYTES).await?;
            let mut response = Response::new(body);
            *response.status_mut() = answer.status;
            *response.headers_mut() = answer.headers;
            Ok::<_, agentd_net::NetError>(response)
        };
        Ok(self.runtime.spawn(sent).await??)
    }
}

//! A browser without a person: it opens the authorization server's page and follows nothing, since that server sends it
//! back to the client at once.

use agentd_mcp::Opener;
use agentd_net::{Declared, Destination, HttpClient, Options, Redirects};
use http::header::LOCATION;

/// See the module.
pub(crate) struct Browser {
    server: String,
}

impl Browser {
    /// The URL of the MCP server that sends people to log in.
    pub(crate) fn new(server: &str) -> Self {
        Self {
            server: server.to_owned(),
        }
    }
}

#[async_trait::async_trait]
impl Opener for Browser {
    async fn open(&self, url: &str) -> Result<String, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let server = Destination::declared(&self.server, Declared::Mcp).map_err(|error| text(&error))?;
        let page = server.discovered(url).map_err(|error| text(&error))?;
        let client = HttpClient::new(page, Options::default()).map_err(|error| text(&error))?;
        let mut request = http::Request::get(url)
            .body(bytes::Bytes::new())
            .map_err(|error| text(&error))?;
        request.extensions_mut().insert(Redirects::Returned);
        let response = client.send(request).await.map_err(|error| text(&error))?;
        let location = response.headers.get(LOCATION).and_then(|to| to.to_str().ok());
        match location {
            Some(location) => Ok(location.to_owned()),
            None => Err(format!(
                "the login page answered HTTP {}",
                response.status.as_u16()
            )),
        }
    }
}

//! What a connection lists: every page, each within the server's clock, only where it is offered.

use std::collections::BTreeSet;
use std::future::Future;

use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::text::clip;
use rmcp::model::{ListToolsResult, PaginatedRequestParams};
use rmcp::service::ServiceError;

use super::{ConnectError, Connection, late};
use crate::catalogue::Tool;
use crate::fault::{Fault, of_request};
use crate::mend;
use crate::pages::Pages;
use crate::reading;
use crate::resource::{Resource, ResourceTemplate};

/// A whole list may take as long as this many pages that come at the last moment: a server that sends one after the
/// other for ever must not hold up a start or a turn.
const SLOW_PAGES: u32 = 4;

impl Connection {
    /// `tools/list`, all pages; none where tools are not offered.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn tools(&self) -> Result<Vec<Tool>, ConnectError> {
        if !self.0.facts.offers_tools {
            return Ok(Vec::new());
        }
        let what = "tools/list";
        let drained = async {
            let mut pages = Pages::new(reading::TOOLS);
            while let Some(cursor) = pages.next_cursor() {
                let page = self
                    .listed(what, self.0.peer.list_tools(parameters(cursor)))
                    .await?;
                self.name_left_out(&page);
                pages.take(page.tools.into_iter().map(reading::tool), page.next_cursor);
            }
            Ok(pages)
        };
        let tools = self.whole(what, drained).await?;
        self.0.outputs.learn(&tools);
        Ok(tools)
    }

    /// The SDK takes out tools whose `x-mcp-header` is none, and says so where nobody looks.
    fn name_left_out(&self, page: &ListToolsResult) {
        let kept: BTreeSet<&str> = page.tools.iter().map(|tool| tool.name.as_ref()).collect();
        for name in mend::names(page.meta.as_deref()).filter(|name| !kept.contains(name)) {
            let name = clip(name, FOREIGN_CHARS);
            tracing::warn!(event = "mcp.spec.invalid", mcp.server = %self.0.server, name = %name, list = "tools", "left out: its x-mcp-header annotations are invalid");
        }
    }

    /// `resources/list`, all pages, the first 2,000 lines; none where resources are not offered.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn resources(&self) -> Result<Vec<Resource>, ConnectError> {
        Ok(self.resource_list().await?.0)
    }

    /// How many resources there are, and the first of them.
    pub(crate) async fn resource_list(&self) -> Result<(Vec<Resource>, u32), ConnectError> {
        if !self.0.facts.offers_resources {
            return Ok((Vec::new(), 0));
        }
        let what = "resources/list";
        let mut resources = Vec::new();
        let drained = async {
            let mut pages = Pages::new(reading::RESOURCES);
            while let Some(cursor) = pages.next_cursor() {
                let page = self
                    .listed(what, self.0.peer.list_resources(parameters(cursor)))
                    .await?;
                let (lines, count) = (page.resources.into_iter(), page.next_cursor);
                pages.take(
                    lines.map(|line| {
                        if resources.len() < reading::RESOURCES_KEPT {
                            resources.extend(reading::resource(line));
                        }
                        ((), 0)
                    }),
                    count,
                );
            }
            Ok(pages)
        };
        let counted = self.whole(what, drained).await?.len();
        Ok((resources, u32::try_from(counted).unwrap_or(u32::MAX)))
    }

    /// `resources/templates/list`, all pages, for information: a template is never read or subscribed to.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn resource_templates(&self) -> Result<Vec<ResourceTemplate>, ConnectError> {
        if !self.0.facts.offers_resources {
            return Ok(Vec::new());
        }
        let what = "resources/templates/list";
        let drained = async {
            let mut pages = Pages::new(reading::RESOURCES_KEPT);
            while let Some(cursor) = pages.next_cursor() {
                let page = self
                    .listed(what, self.0.peer.list_resource_templates(parameters(cursor)))
                    .await?;
                let lines = page.resource_templates.into_iter();
                pages.take(
                    lines.filter_map(reading::template).map(|line| (line, 0)),
                    page.next_cursor,
                );
            }
            Ok(pages)
        };
        self.whole(what, drained).await
    }

    /// All pages of a list.
    pub(super) async fn whole<T>(
        &self,
        what: &'static str,
        list: impl Future<Output = Result<Pages<T>, ConnectError>>,
    ) -> Result<Vec<T>, ConnectError> {
        let limit = self.0.timeout.saturating_mul(SLOW_PAGES);
        let Ok(list) = tokio::time::timeout(limit, list).await else {
            return Err(late(what, limit, &self.0.health).into());
        };
        let pages = list?;
        if pages.cut {
            tracing::warn!(
                event = "mcp.spec.invalid",
                mcp.server = %self.0.server,
                "{what} is too long; {} lines taken",
                pages.items.len()
            );
        }
        Ok(pages.items)
    }

    /// One page of a list.
    pub(super) async fn listed<T>(
        &self,
        what: &'static str,
        page: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, ConnectError> {
        match tokio::time::timeout(self.0.timeout, page).await {
            Err(_) => Err(late(what, self.0.timeout, &self.0.health).into()),
            Ok(Err(error)) => {
                let fault = of_request(&error, self.0.health.fault());
                Err(Fault {
                    message: format!("{what}: {}", fault.message),
                    ..fault
                }
                .into())
            }
            Ok(Ok(page)) => Ok(page),
        }
    }
}

pub(super) fn parameters(cursor: Option<String>) -> Option<PaginatedRequestParams> {
    cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)))
}

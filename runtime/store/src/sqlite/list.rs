//! The list of tasks, a page at a time, along an index of its order.

use agentd_state::store::size_of_json;
use agentd_state::{TaskPage, TaskQuery};
use rusqlite::{Connection, Statement, ToSql};

use super::fault::Fault;
use super::reader;
use crate::fault::unreadable;

/// The index of the narrowest that is asked for, in the order of the list.
fn index(query: &TaskQuery) -> &'static str {
    match (&query.owner, &query.context_id, query.state) {
        (None, ..) => "task_list_time",
        (Some(_), Some(_), _) => "task_list_context",
        (Some(_), None, Some(_)) => "task_list_state",
        (Some(_), None, None) => "task_list_owner",
    }
}

/// Which tasks are asked for; parameters are bound by number.
fn conditions(query: &TaskQuery) -> String {
    let mut text = " WHERE true".to_owned();
    for (asked, condition) in [
        (query.owner.is_some(), " AND task_list.owner = ?1"),
        (query.context_id.is_some(), " AND task_list.context_id = ?2"),
        (query.state.is_some(), " AND state = ?3"),
        (query.since.is_some(), " AND updated_at >= ?4"),
    ] {
        if asked {
            text.push_str(condition);
        }
    }
    text
}

/// The statement for a page.
fn statement(query: &TaskQuery) -> String {
    let (index, conditions) = (index(query), conditions(query));
    let after = match query.after {
        Some(_) => " AND (updated_at, id) < (?5, ?6)",
        None => "",
    };
    format!(
        "SELECT id, record FROM task_list INDEXED BY {index} CROSS JOIN task USING (id){conditions}{after} \
         ORDER BY updated_at DESC, id DESC"
    )
}

/// The statement for their number.
fn counted(query: &TaskQuery) -> String {
    format!(
        "SELECT count(*) FROM task_list INDEXED BY {}{}",
        index(query),
        conditions(query)
    )
}

fn bind(statement: &mut Statement<'_>, query: &TaskQuery) -> rusqlite::Result<()> {
    let after = query.after.as_ref();
    let state = query.state.map(|state| state.name());
    let since = query.since.map(|since| since.as_microsecond());
    let at = after.map(|mark| mark.updated_at.as_microsecond());
    let id = after.map(|mark| &mark.id);
    let values: [&dyn ToSql; 6] = [&query.owner, &query.context_id, &state, &since, &at, &id];
    for (number, value) in (1..=statement.parameter_count()).zip(values) {
        statement.raw_bind_parameter(number, value)?;
    }
    Ok(())
}

pub(super) fn tasks(connection: &Connection, query: &TaskQuery) -> Result<TaskPage, Fault> {
    let mut count = connection.prepare_cached(&counted(query))?;
    bind(&mut count, query)?;
    let total: i64 = match count.raw_query().next()? {
        Some(row) => row.get(0)?,
        None => 0,
    };
    let mut statement = connection.prepare_cached(&statement(query))?;
    bind(&mut statement, query)?;
    let mut rows = statement.raw_query();
    let (mut page, mut bytes) = (TaskPage::default(), 0);
    page.total = u64::try_from(total).unwrap_or_default();
    while let Some(row) = rows.next()? {
        if !page.has_room(query.limit, bytes) {
            break;
        }
        bytes += size_of_json(reader::bytes(row, 1)?.len() as u64);
        match reader::parsed(row, 1)? {
            Ok(task) => page.tasks.push(task),
            // One bad record does not keep a caller from the others.
            Err(error) => {
                let error = unreadable("task", &reader::shown(row, 0)?, &error);
                tracing::error!(event = "store.record.corrupt", err = %error);
            }
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use agentd_state::{TaskMark, TaskState};
    use jiff::Timestamp;

    use super::*;
    use crate::sqlite::schema;

    fn plan(connection: &Connection, query: &str) -> String {
        let mut explained = connection
            .prepare(&format!("EXPLAIN QUERY PLAN {query}"))
            .unwrap();
        let plan = explained.raw_query().mapped(|row| row.get::<_, String>(3));
        plan.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    }

    fn database() -> (tempfile::TempDir, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("db");
        std::fs::write(&file, "").unwrap();
        let mut connection = schema::connect(&file).unwrap();
        schema::migrate(&mut connection, &file).unwrap();
        (folder, connection)
    }

    /// Nothing that is asked while an agent runs reads a whole table or sorts.
    #[test]
    fn every_other_question_goes_by_an_index_too() {
        let (_folder, connection) = database();
        for (query, index) in [
            (crate::sqlite::reader::OPEN, "task USING INDEX task_open"),
            (
                crate::sqlite::reader::ENTRIES,
                "entry USING INDEX sqlite_autoindex_entry_1 (kind=? AND scope=? AND key>?)",
            ),
            (
                crate::sqlite::retention::OLDEST,
                "task_mark USING COVERING INDEX task_ended",
            ),
            (
                crate::sqlite::retention::EXPIRE,
                "entry USING COVERING INDEX entry_expiry (expires_at<?)",
            ),
            (
                "SELECT EXISTS (SELECT 1 FROM task WHERE owner = ?1 AND context_id = ?2)",
                "task_context",
            ),
            ("DELETE FROM message_id WHERE task_id = ?1", "message_of_task"),
            (
                "DELETE FROM entry WHERE kind = ?1 AND scope = ?2",
                "sqlite_autoindex_entry_1 (kind=? AND scope=?)",
            ),
        ] {
            let plan = plan(&connection, query);
            assert!(
                plan.contains(index) && !plan.contains("TEMP B-TREE"),
                "{query}: {plan}"
            );
            for step in plan.split("; ").filter(|step| step.starts_with("SCAN ")) {
                // A partial index holds what is asked for and nothing else; one row says that there are any.
                assert!(
                    step.contains("task_open") || step.contains("task_ended") || step.contains("CONSTANT"),
                    "{query}: {plan}"
                );
            }
        }
    }

    /// Every combination of filters goes along an index in its order: no row is sorted, none before the page is read.
    #[test]
    fn no_list_reads_more_than_its_page() {
        let (_folder, connection) = database();
        for bits in 0..32 {
            let query = TaskQuery {
                owner: (bits & 1 > 0).then(|| "o".into()),
                context_id: (bits & 2 > 0).then(|| "c".into()),
                state: (bits & 4 > 0).then_some(TaskState::Working),
                after: (bits & 8 > 0).then(|| TaskMark {
                    updated_at: Timestamp::UNIX_EPOCH,
                    id: "t".into(),
                }),
                since: (bits & 16 > 0).then_some(Timestamp::UNIX_EPOCH),
                limit: 10,
            };
            let count = plan(&connection, &counted(&query));
            assert!(
                !count.contains("TEMP B-TREE") && !count.contains("task_mark"),
                "{query:?}: {count}"
            );
            let text = plan(&connection, &statement(&query));
            assert!(
                !text.contains("TEMP B-TREE") && text.contains("task_list_"),
                "{query:?}: {text}"
            );
            let index = match (&query.owner, &query.context_id, query.state) {
                (None, ..) => "task_list_time",
                (Some(_), Some(_), _) => "task_list_context",
                (Some(_), None, Some(_)) => "task_list_state",
                (Some(_), None, None) => "task_list_owner",
            };
            assert!(text.contains(index), "{query:?}: {text}");
            assert!(text.contains("SEARCH task USING PRIMARY KEY"), "{text}");
        }
    }
}

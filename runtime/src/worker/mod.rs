//! Worker processes, both ends. A worker runs the turns of one conversation, one at a time, holds its own MCP
//! connections and model clients, and stays warm between turns. It never touches the store.

pub mod asking;
pub mod audited;
pub mod child;
pub mod confine;
pub mod frame;
pub mod framing;
pub mod listing;
pub mod models;
pub mod pool;
pub mod process;
pub mod shown;
pub mod skills;
pub mod telling;
pub mod toolbox;
pub mod turn;

//! What an agent has around it in most tests: a scripted model, and a folder to run in. How it is started stands with the
//! tests that need it so.

use tempfile::TempDir;

use crate::model::Model;

pub struct World {
    pub model: Model,
    pub folder: TempDir,
}

impl World {
    pub async fn new() -> Self {
        Self {
            model: Model::start().await,
            folder: tempfile::tempdir().unwrap(),
        }
    }
}

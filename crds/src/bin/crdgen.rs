//! Writes the CRDs as YAML: into the folder that is the one argument, or to stdout.

use std::io::Write as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).map(std::path::PathBuf::from);
    for (file, crd) in agentd_crds::schema::all() {
        let yaml = serde_saphyr::to_string(&crd)?;
        match &folder {
            Some(folder) => std::fs::write(folder.join(file), yaml)?,
            None => writeln!(std::io::stdout(), "---\n{yaml}")?,
        }
    }
    Ok(())
}

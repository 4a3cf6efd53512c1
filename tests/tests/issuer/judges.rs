//! Software we did not write, judging what the issuer signed.

use std::process::Command;

use agentd_base::issuance::SvidResponse;
use agentd_identity::Svid;
use agentd_tests::cluster::repository;
use agentd_tests::command::run;

/// URI and DNS names of the leaf as OpenSSL prints them, after its strictest verification.
pub(crate) fn judged_by_openssl(answer: &SvidResponse) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), &answer.bundle).unwrap();
    std::fs::write(folder.path().join("leaf.pem"), &answer.certificates).unwrap();
    for purpose in ["sslserver", "sslclient"] {
        let mut command = Command::new("openssl");
        command.current_dir(folder.path());
        run(command.args([
            "verify",
            "-x509_strict",
            "-purpose",
            purpose,
            "-CAfile",
            "ca.pem",
            "leaf.pem",
        ]))
        .ok();
    }
    let mut command = Command::new("openssl");
    command.current_dir(folder.path());
    run(command.args(["x509", "-in", "leaf.pem", "-noout", "-ext", "subjectAltName"])).ok()
}

pub(crate) fn parsed_by_py_spiffe(answer: &SvidResponse, svid: &Svid, id: &str) {
    let python = std::env::var_os("TEST_PYTHON").unwrap_or_else(|| {
        let folder = run(Command::new(repository().join("tests/scripts/peers.sh")).arg("python")).ok();
        std::path::Path::new(folder.trim())
            .join("bin/python")
            .into_os_string()
    });
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("svid.pem", &answer.certificates),
        ("key.pem", &*svid.key_pem()),
        ("bundle.pem", &answer.bundle),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let script = "import sys\nfrom spiffe import TrustDomain, X509Bundle, X509Svid\n\
                  svid = X509Svid.parse(open('svid.pem', 'rb').read(), open('key.pem', 'rb').read())\n\
                  domain = TrustDomain(svid.spiffe_id.trust_domain.name)\n\
                  X509Bundle.parse(domain, open('bundle.pem', 'rb').read())\nprint(svid.spiffe_id)\n";
    let shown = run(Command::new(python)
        .current_dir(folder.path())
        .args(["-c", script]))
    .ok();
    assert_eq!(shown.trim(), id);
}

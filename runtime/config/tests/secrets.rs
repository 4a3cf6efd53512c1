//! Secret references: their form, their resolution at use, and that nothing of a value is ever shown.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::path::{Path, PathBuf};

use agentd_base::class::{Class, Classified as _};
use agentd_config::Document;
use agentd_config::document::{
    Auth, ClientTls, External, HttpStore, McpServer, ModelEndpoint, OAuth2Auth, ServerTls, StaticAuth,
};
use agentd_config::file::FileError;
use agentd_config::secret::{
    SecretError, SecretSource, SystemSecrets, Template, TemplateError, missing_secrets, secret_files,
};
use secrecy::ExposeSecret as _;
use zeroize::Zeroizing;

struct Given;

impl SecretSource for Given {
    fn variable(&self, name: &str) -> Option<Zeroizing<String>> {
        let value = match name {
            "TOKEN" => "t0ken",
            "LINES" => "a\nb",
            "EMPTY" => "",
            _ => return None,
        };
        Some(Zeroizing::new(value.into()))
    }

    fn file(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, FileError> {
        let content: &[u8] = match path.to_str() {
            Some("/s/key") => b"from-file\n",
            Some("/s/two") => b"two\r\n\n",
            Some("/s/empty") => b"\n",
            Some("/s/binary") => &[0xff, 0xfe],
            Some("/s/large") => return Err(FileError::TooLarge(1)),
            Some("/s/folder") => return Err(FileError::NotAFile),
            Some("/s/denied") => return Err(FileError::Unreadable(std::io::ErrorKind::PermissionDenied)),
            _ => return Err(FileError::NotFound),
        };
        Ok(Zeroizing::new(content.to_vec()))
    }
}

fn resolve(text: &str) -> Result<String, SecretError> {
    Template::parse(text)
        .unwrap()
        .resolve_header(&Given)
        .map(|value| value.expose_secret().to_owned())
}

#[test]
fn references_are_replaced_and_one_newline_is_trimmed() {
    assert_eq!(resolve("Bearer {{secret:TOKEN}}").unwrap(), "Bearer t0ken");
    assert_eq!(resolve("{{secret-file:/s/key}}").unwrap(), "from-file");
    assert_eq!(
        resolve("a{{secret:TOKEN}}b{{secret-file: /s/key }}c").unwrap(),
        "at0kenbfrom-filec"
    );
    assert_eq!(resolve("plain } text {").unwrap(), "plain } text {");
}

#[test]
fn what_is_not_there_or_not_fit_names_the_reference() {
    use SecretError::*;
    let path = PathBuf::from;
    for (text, expected, class) in [
        ("{{secret:NONE}}", NoVariable("NONE".into()), Class::Denied),
        ("{{secret:EMPTY}}", NoVariable("EMPTY".into()), Class::Denied),
        (
            "{{secret:LINES}}",
            Control("{{secret:LINES}}".into()),
            Class::Invalid,
        ),
        (
            "x{{secret-file:/s/two}}",
            Control("…{{secret-file:/s/two}}".into()),
            Class::Invalid,
        ),
        ("{{secret-file:/s/none}}", NoFile(path("/s/none")), Class::Denied),
        ("{{secret-file:/s/empty}}", Empty(path("/s/empty")), Class::Denied),
        (
            "{{secret-file:/s/binary}}",
            NotText(path("/s/binary")),
            Class::Invalid,
        ),
        (
            "{{secret-file:/s/folder}}",
            NotAFile(path("/s/folder")),
            Class::Invalid,
        ),
        (
            "{{secret-file:/s/large}}",
            NotText(path("/s/large")),
            Class::Invalid,
        ),
        (
            "{{secret-file:/s/denied}}",
            Unreadable {
                path: path("/s/denied"),
                kind: std::io::ErrorKind::PermissionDenied,
            },
            Class::Unavailable,
        ),
    ] {
        let error = resolve(text).unwrap_err();
        assert_eq!(error, expected, "{text}");
        assert_eq!(error.class(), class, "{text}");
    }
}

#[test]
fn anything_else_between_braces_is_refused() {
    assert_eq!(Template::parse("{{secret:TOKEN"), Err(TemplateError::Open));
    for bad in [
        "{{TOKEN}}",
        "{{secret:}}",
        "{{secret:A B}}",
        "{{secret-file:}}",
        "{{env:X}}",
        "{{}}",
    ] {
        assert!(
            matches!(Template::parse(bad), Err(TemplateError::Unknown(_))),
            "{bad}"
        );
    }
    assert_eq!(
        Template::parse("{{x}}").unwrap_err().to_string(),
        "`{{x}}` is not a secret reference"
    );
}

#[test]
fn neither_a_literal_nor_a_value_is_shown() {
    let template = Template::parse("Bearer hunter2 {{secret:TOKEN}}").unwrap();
    let shown = format!("{template} {template:?} {:?}", template.resolve(&Given).unwrap());
    assert!(!shown.contains("hunter2") && !shown.contains("t0ken"), "{shown}");
    assert!(shown.contains("{{secret:TOKEN}}"));
}

#[test]
fn files_are_read_again_at_each_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let template = Template::parse(&format!("{{{{secret-file:{}}}}}", path.display())).unwrap();
    assert!(matches!(
        template.resolve(&SystemSecrets),
        Err(SecretError::NoFile(_))
    ));
    for value in ["one", "two"] {
        std::fs::write(&path, value).unwrap();
        assert_eq!(template.resolve(&SystemSecrets).unwrap().expose_secret(), value);
    }
    let path = Template::parse("{{secret:PATH}}").unwrap();
    assert!(path.resolve(&SystemSecrets).is_ok());
}

#[test]
fn the_instruction_may_be_one_reference() {
    let mut document = Document::default();
    assert_eq!(document.instruction(&Given).unwrap(), None);
    document.agent.instruction = Some("Use {{mustache}} freely.".into());
    assert_eq!(
        document.instruction(&Given).unwrap().as_deref(),
        Some("Use {{mustache}} freely.")
    );
    document.agent.instruction = Some(" {{secret-file:/s/key}}\n".into());
    assert_eq!(
        document.instruction(&Given).unwrap().as_deref(),
        Some("from-file")
    );
    document.agent.instruction = Some("{{secret-file:/s/none}}".into());
    assert!(document.instruction(&Given).is_err());
}

fn document(folder: &Path) -> Document {
    let file = |name: &str| folder.join(name);
    let reference = |name: &str| format!("x {{{{secret-file:{}}}}}", file(name).display());
    let mut document = Document::default();
    document.agent.instruction = Some(format!("{{{{secret-file:{}}}}}", file("i/text").display()));
    let mut model = ModelEndpoint::default();
    model.connection.auth = Some(Auth::Static(StaticAuth {
        bearer: reference("m/key"),
    }));
    model.connection.tls = Some(ClientTls {
        ca_file: Some("/etc/ca/x".into()),
        ..ClientTls::default()
    });
    document.intelligence.endpoints.push(model);
    let mut server = McpServer::default();
    server
        .connection
        .headers
        .insert("X".into(), reference("s/header"));
    server
        .connection
        .headers
        .insert("Y".into(), "plain {{secret:VAR}}".into());
    server.connection.auth = Some(Auth::OAuth2(OAuth2Auth {
        client_id: "agent".into(),
        client_secret: Some(reference("s/oauth")),
        client_key: Some(reference("s/oauth.key")),
        ..OAuth2Auth::default()
    }));
    server.connection.tls = Some(ClientTls {
        client_cert_file: Some(file("s/tls.crt")),
        client_key_file: Some(file("s/tls.key")),
        ..ClientTls::default()
    });
    document.mcp.servers.push(server);
    document.a2a.external = Some(External {
        url: "https://x.example".into(),
        tls: Some(ServerTls {
            cert: file("e/tls.crt"),
            key: file("e/tls.key"),
        }),
    });
    document.store.http = Some(HttpStore {
        headers: [("Z".to_owned(), reference("k/header"))].into(),
        auth: Some(Auth::Static(StaticAuth {
            bearer: reference("k/token"),
        })),
        tls: Some(ClientTls {
            ca_file: Some(file("k/ca.crt")),
            ..ClientTls::default()
        }),
        ..HttpStore::default()
    });
    document
}

#[test]
fn the_files_of_a_document_and_the_missing_ones() {
    let folder = tempfile::tempdir().unwrap();
    let document = document(folder.path());
    let mut expected: Vec<PathBuf> = [
        "e/tls.crt",
        "e/tls.key",
        "i/text",
        "k/ca.crt",
        "k/header",
        "k/token",
        "m/key",
        "s/header",
        "s/oauth",
        "s/oauth.key",
        "s/tls.crt",
        "s/tls.key",
    ]
    .map(|name| folder.path().join(name))
    .into();
    expected.push("/etc/ca/x".into());
    expected.sort();
    assert_eq!(secret_files(&document), expected);
    std::fs::create_dir(folder.path().join("s")).unwrap();
    std::fs::write(folder.path().join("s/header"), "x").unwrap();
    let missing = [
        "e/tls.crt",
        "e/tls.key",
        "i/text",
        "k/ca.crt",
        "k/header",
        "k/token",
        "m/key",
        "s/oauth",
        "s/oauth.key",
        "s/tls.crt",
        "s/tls.key",
    ];
    assert_eq!(missing_secrets(&document, folder.path()), missing);
}

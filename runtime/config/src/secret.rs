//! Secret references: `{{secret:NAME}}` is an environment variable, `{{secret-file:PATH}}` a file. A template is parsed
//! once and resolved at each use, so that a rotated Secret is taken up. Nothing here prints or keeps a resolved value.

use std::fmt;
use std::path::{Path, PathBuf};

use agentd_base::class::{Class, Classified};
use agentd_base::limit::SECRET_BYTES;
use secrecy::SecretString;
use zeroize::Zeroizing;

use crate::document::{Auth, Connection, Document};
use crate::file::{self, FileError};

/// Where the operator mounts Secrets in a pod: `<this>/<secret name>/<key>`.
pub const POD_FOLDER: &str = "/etc/agentd/secrets";

/// Why a text is no template.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TemplateError {
    /// `{{` without its end.
    #[error("`{{{{` is not closed by `}}}}`")]
    Open,
    /// Something else between the braces.
    #[error("`{{{{{0}}}}}` is not a secret reference")]
    Unknown(String),
}

impl Classified for TemplateError {
    fn class(&self) -> Class {
        Class::Invalid
    }
}

/// Why a secret is not there. Names the reference, never a value.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum SecretError {
    /// The variable is not set, or empty.
    #[error("environment variable {0} is not set; set it to the secret")]
    NoVariable(String),
    /// The file is not there.
    #[error("secret file {} does not exist; create it, or the Secret it is mounted from", .0.display())]
    NoFile(PathBuf),
    /// The file is empty.
    #[error("secret file {} is empty; put the secret into it", .0.display())]
    Empty(PathBuf),
    /// The file cannot be read.
    #[error("secret file {} cannot be read: {kind}; check its permissions", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        kind: std::io::ErrorKind,
    },
    /// A folder, a device, a pipe.
    #[error("secret file {} is not a regular file; name the file that holds the secret", .0.display())]
    NotAFile(PathBuf),
    /// Not text, or longer than [`SECRET_BYTES`].
    #[error("secret file {} is not a text of at most {SECRET_BYTES} bytes; check what it holds", .0.display())]
    NotText(PathBuf),
    /// A header value may not hold a line break or another control character.
    #[error("the resolved header value holds a line break or control character; check {0}")]
    Control(String),
}

impl Classified for SecretError {
    fn class(&self) -> Class {
        match self {
            Self::NoVariable(_) | Self::NoFile(_) | Self::Empty(_) => Class::Denied,
            Self::Unreadable { .. } => Class::Unavailable,
            Self::NotAFile(_) | Self::NotText(_) | Self::Control(_) => Class::Invalid,
        }
    }
}

/// Where secrets come from.
pub trait SecretSource: Send + Sync {
    /// The environment variable; none when it is not set.
    fn variable(&self, name: &str) -> Option<Zeroizing<String>>;
    /// The content of the file, at most [`SECRET_BYTES`].
    fn file(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, FileError>;
}

/// The environment and the file system of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemSecrets;

impl SecretSource for SystemSecrets {
    fn variable(&self, name: &str) -> Option<Zeroizing<String>> {
        std::env::var(name).ok().map(Zeroizing::new)
    }

    fn file(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, FileError> {
        file::read(path, SECRET_BYTES)
    }
}

#[derive(Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable(String),
    File(PathBuf),
}

/// A text with secret references.
#[derive(Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

impl Template {
    /// Parses a text. Everything between `{{` and `}}` must be a reference.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (inside, tail) = after.split_once("}}").ok_or(TemplateError::Open)?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(reference(inside)?);
            rest = tail;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// Whether it refers to a secret at all.
    pub fn has_reference(&self) -> bool {
        self.0.iter().any(|piece| !matches!(piece, Piece::Text(_)))
    }

    /// Whether it is one reference and nothing else.
    pub fn is_one_reference(&self) -> bool {
        matches!(self.0.as_slice(), [Piece::Variable(_) | Piece::File(_)])
    }

    /// The files it refers to.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::File(path) => Some(path.as_path()),
            Piece::Text(_) | Piece::Variable(_) => None,
        })
    }

    /// The text with every reference replaced; one trailing newline of a secret is not part of it.
    pub fn resolve(&self, source: &dyn SecretSource) -> Result<SecretString, SecretError> {
        let mut text = Zeroizing::new(String::new());
        for piece in &self.0 {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Variable(name) => {
                    let value = source.variable(name).filter(|value| !value.is_empty());
                    let value = value.ok_or_else(|| SecretError::NoVariable(name.clone()))?;
                    text.push_str(trim(&value));
                }
                Piece::File(path) => text.push_str(trim(&read(source, path)?)),
            }
        }
        Ok(SecretString::from(text.as_str()))
    }

    /// As [`Self::resolve`], and fit for a header.
    pub fn resolve_header(&self, source: &dyn SecretSource) -> Result<SecretString, SecretError> {
        use secrecy::ExposeSecret as _;
        let value = self.resolve(source)?;
        if value.expose_secret().chars().any(|c| c.is_control() && c != '\t') {
            return Err(SecretError::Control(self.to_string()));
        }
        Ok(value)
    }
}

/// Shows the references; a literal piece is shown as `…`.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.0 {
            match piece {
                Piece::Text(_) => f.write_str("…")?,
                Piece::Variable(name) => write!(f, "{{{{secret:{name}}}}}")?,
                Piece::File(path) => write!(f, "{{{{secret-file:{}}}}}", path.display())?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({self})")
    }
}

fn reference(inside: &str) -> Result<Piece, TemplateError> {
    let unknown = || TemplateError::Unknown(agentd_base::text::clip(inside, 80));
    let (kind, name) = inside.split_once(':').ok_or_else(unknown)?;
    match (kind, name.trim()) {
        ("secret", name) if is_variable(name) => Ok(Piece::Variable(name.to_owned())),
        ("secret-file", path) if !path.is_empty() => Ok(Piece::File(PathBuf::from(path))),
        _ => Err(unknown()),
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn read(source: &dyn SecretSource, path: &Path) -> Result<Zeroizing<String>, SecretError> {
    let bytes = source.file(path).map_err(|error| match error {
        FileError::NotFound => SecretError::NoFile(path.to_owned()),
        FileError::TooLarge(_) => SecretError::NotText(path.to_owned()),
        FileError::NotAFile | FileError::Silent => SecretError::NotAFile(path.to_owned()),
        FileError::Unreadable(kind) => SecretError::Unreadable {
            path: path.to_owned(),
            kind,
        },
    })?;
    let text = std::str::from_utf8(&bytes).map_err(|_| SecretError::NotText(path.to_owned()))?;
    if trim(text).is_empty() {
        return Err(SecretError::Empty(path.to_owned()));
    }
    Ok(Zeroizing::new(text.to_owned()))
}

fn trim(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

/// The files that a document needs for its secrets and certificates, sorted: header values, credentials, the
/// instruction, client certificates, roots.
pub fn secret_files(document: &Document) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = document
        .agent
        .instruction
        .iter()
        .flat_map(|text| one(text))
        .collect();
    let models = document
        .intelligence
        .endpoints
        .iter()
        .map(|endpoint| &endpoint.connection);
    let servers = document.mcp.servers.iter().map(|server| &server.connection);
    let store = document.store.http.as_ref().map(|http| Connection {
        headers: http.headers.clone(),
        auth: http.auth.clone(),
        tls: http.tls.clone(),
        ..Connection::default()
    });
    for connection in models.chain(servers).chain(&store) {
        files.extend(of_connection(connection));
    }
    let external = document
        .a2a
        .external
        .as_ref()
        .and_then(|external| external.tls.as_ref());
    files.extend(
        external
            .into_iter()
            .flat_map(|tls| [tls.cert.clone(), tls.key.clone()]),
    );
    let tokens = document
        .a2a
        .principals
        .iter()
        .filter_map(|one| one.bearer.as_ref());
    files.extend(of_templates(tokens));
    files.sort();
    files.dedup();
    files
}

/// Those below `folder` (`<secret>/<key>` in a pod) that are not there, as `secret/key`, sorted.
pub fn missing_secrets(document: &Document, folder: &Path) -> Vec<String> {
    let files = secret_files(document);
    let missing = files.iter().filter(|file| !file.is_file());
    missing
        .filter_map(|file| file.strip_prefix(folder).ok())
        .map(|name| name.display().to_string())
        .collect()
}

/// An instruction that is one reference and nothing else; any other text is no template.
pub(crate) fn instruction(text: &str) -> Option<Template> {
    Template::parse(text.trim())
        .ok()
        .filter(Template::is_one_reference)
}

fn one(text: &str) -> Vec<PathBuf> {
    instruction(text)
        .map(|template| template.files().map(Path::to_owned).collect())
        .unwrap_or_default()
}

fn of_templates<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<PathBuf> {
    let templates = texts.filter_map(|text| Template::parse(text).ok());
    templates
        .flat_map(|template| template.files().map(Path::to_owned).collect::<Vec<_>>())
        .collect()
}

fn of_connection(connection: &Connection) -> Vec<PathBuf> {
    let credential = connection.auth.iter().flat_map(|auth| match auth {
        Auth::Static(fixed) => [Some(&fixed.bearer), None],
        Auth::OAuth2(client) => [client.client_secret.as_ref(), client.client_key.as_ref()],
    });
    let mut files = of_templates(connection.headers.values().chain(credential.flatten()));
    if let Some(tls) = &connection.tls {
        let given = [&tls.ca_file, &tls.client_cert_file, &tls.client_key_file];
        files.extend(given.into_iter().flatten().cloned());
    }
    files
}

impl Document {
    /// The URI, where the instruction is a resource of a server: one URI with `//` and nothing else.
    pub fn instruction_uri(&self) -> Option<&str> {
        let text = self.agent.instruction.as_deref()?.trim();
        let (scheme, rest) = text.split_once("://")?;
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(named);
        let is_rest = !rest.is_empty() && !rest.contains(|c: char| c.is_whitespace() || c.is_control());
        (is_scheme && is_rest).then_some(text)
    }

    /// The instruction: the text, or what its one reference holds now.
    pub fn instruction(&self, source: &dyn SecretSource) -> Result<Option<String>, SecretError> {
        use secrecy::ExposeSecret as _;
        let Some(text) = &self.agent.instruction else {
            return Ok(None);
        };
        match instruction(text) {
            Some(template) => Ok(Some(template.resolve(source)?.expose_secret().to_owned())),
            None => Ok(Some(text.clone())),
        }
    }
}

//! HTTP/1.1 by hand: a request as it comes, handed on to a real server and its answer back, or sent by a test itself.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::soon;
use super::tap::Asked;

/// One request to 127.0.0.1 by hand, outside of the client under test: the answer's body.
///
/// # Panics
/// When there is no answer.
pub async fn by_hand(port: u16, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let lines: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = body.len();
    let text = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n{lines}content-length: {length}\r\n\r\n{body}"
    );
    let mut answer = Vec::new();
    let exchange = async {
        #[expect(clippy::disallowed_methods, reason = "the test's own hand, not the client's")]
        let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
        server.write_all(text.as_bytes()).await?;
        server.read_to_end(&mut answer).await
    };
    soon(path, exchange).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer
        .split_once("\r\n\r\n")
        .map_or_else(String::new, |(_, body)| body.to_owned())
}

/// Hands a request on and its answer back, on a connection of its own that ends with the answer: what comes next on it
/// would not be seen.
pub(crate) async fn pass(port: u16, text: &[u8], client: &mut TcpStream) -> io::Result<()> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    #[expect(
        clippy::disallowed_methods,
        reason = "the tap stands outside of what it watches"
    )]
    let mut server = TcpStream::connect(address).await?;
    server.write_all(text).await?;
    let (mut reader, mut writer) = client.split();
    let mut byte = [0; 1];
    tokio::select! {
        answered = answer(&mut server, &mut writer) => answered,
        // The client hung up.
        _ = reader.read(&mut byte) => Ok(()),
    }
}

/// One answer, its body as it is framed, with a head that says that the connection ends. Servers keep theirs open.
async fn answer(server: &mut TcpStream, client: &mut (impl tokio::io::AsyncWrite + Unpin)) -> io::Result<()> {
    let mut server = BufReader::new(server);
    let (mut length, mut is_chunked) = (None, false);
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if server.read_line(&mut line).await? <= 2 {
            break;
        }
        let lower = line.to_ascii_lowercase();
        is_chunked |= lower.starts_with("transfer-encoding:") && lower.contains("chunked");
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok();
        }
        if !lower.starts_with("connection:") && !lower.starts_with("keep-alive:") {
            head.push_str(&line);
        }
    }
    client
        .write_all(format!("{head}connection: close\r\n\r\n").as_bytes())
        .await?;
    let bodiless = [" 204 ", " 304 "]
        .iter()
        .any(|status| head.lines().next().is_some_and(|line| line.contains(status)));
    if is_chunked {
        loop {
            let mut line = String::new();
            server.read_line(&mut line).await?;
            client.write_all(line.as_bytes()).await?;
            let size = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
            // With the line end after it; the last one is empty.
            tokio::io::copy(&mut (&mut server).take(size + 2), client).await?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = length {
        tokio::io::copy(&mut server.take(length), client).await?;
    } else if !bodiless {
        tokio::io::copy(&mut server, client).await?;
    }
    client.shutdown().await
}

/// One request; `None` when the client has closed. What is passed on says that the connection ends with the answer.
pub(crate) async fn read(
    socket: &mut TcpStream,
    buffer: &mut Vec<u8>,
    connection: usize,
) -> io::Result<Option<Asked>> {
    let head = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let text = String::from_utf8_lossy(&buffer[..head]).into_owned();
    let mut lines = text.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let mut asked = Asked {
        connection,
        method: first.next().unwrap_or_default().to_owned(),
        path: first.next().unwrap_or_default().to_owned(),
        ..Asked::default()
    };
    for line in lines {
        if let Some((name, value)) = line.split_once(':') {
            asked
                .headers
                .insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    let length: usize = asked
        .header("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    while buffer.len() < head + length {
        if socket.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body: Vec<u8> = buffer.drain(..head + length).skip(head).collect();
    asked.body = serde_json::from_slice(&body).unwrap_or_default();
    let end = text.find("\r\n").unwrap_or_default();
    let headers = asked.headers.iter().filter(|(name, _)| *name != "connection");
    let headers: String = headers
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let rewritten = format!("{}\r\n{headers}connection: close\r\n\r\n", &text[..end]);
    asked.text = [rewritten.into_bytes(), body].concat();
    Ok(Some(asked))
}

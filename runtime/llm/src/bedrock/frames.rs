//! `application/vnd.amazon.eventstream`: messages of a prelude, headers and a payload, with two checksums, out of chunks
//! of any size. Pure; what it holds is bounded by the longest message.

/// Two lengths and their checksum.
const PRELUDE: usize = 12;
/// The checksum of the whole at its end.
const CHECKSUM: usize = 4;
/// The longest message that the format allows (24 MiB of payload) is more than any answer.
const MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// All headers of a message, as the format allows.
const HEADER_BYTES: usize = 128 * 1024;

/// A message: the headers that are texts, and the payload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Frame {
    headers: Vec<(String, String)>,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// A header, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        let header = self.headers.iter().find(|(known, _)| known == name);
        header.map_or("", |(_, value)| value.as_str())
    }
}

/// The messages of a stream.
#[derive(Debug, Default)]
pub(crate) struct Frames(Vec<u8>);

impl Frames {
    /// Takes a chunk.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.0.extend_from_slice(chunk);
    }

    /// The next message that is complete.
    ///
    /// # Errors
    /// When a checksum or a length is wrong: nothing after it can be read.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, &'static str> {
        let Some(prelude) = self.0.first_chunk::<PRELUDE>() else {
            return Ok(None);
        };
        let [t0, t1, t2, t3, h0, h1, h2, h3, c0, c1, c2, c3] = *prelude;
        let total = u32::from_be_bytes([t0, t1, t2, t3]) as usize;
        let headers = u32::from_be_bytes([h0, h1, h2, h3]) as usize;
        if crc32(&[t0, t1, t2, t3, h0, h1, h2, h3]) != u32::from_be_bytes([c0, c1, c2, c3]) {
            return Err("the checksum of a prelude is wrong");
        }
        if total > MESSAGE_BYTES || headers > HEADER_BYTES || total < PRELUDE + CHECKSUM + headers {
            return Err("the lengths of a message are wrong");
        }
        if self.0.len() < total {
            return Ok(None);
        }
        let rest = self.0.split_off(total);
        let message = std::mem::replace(&mut self.0, rest);
        parse(&message, headers).map(Some)
    }

    /// Whether a message is incomplete.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn parse(message: &[u8], headers: usize) -> Result<Frame, &'static str> {
    let wrong = "the lengths of a message are wrong";
    let (whole, checksum) = message.split_last_chunk::<CHECKSUM>().ok_or(wrong)?;
    if crc32(whole) != u32::from_be_bytes(*checksum) {
        return Err("the checksum of a message is wrong");
    }
    let data = whole.get(PRELUDE..).ok_or(wrong)?;
    let (headers, payload) = data.split_at_checked(headers).ok_or(wrong)?;
    Ok(Frame {
        headers: parse_headers(headers).ok_or("the headers of a message are wrong")?,
        payload: payload.to_vec(),
    })
}

/// Name and value of each; only texts are of use.
fn parse_headers(mut bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let mut headers = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (kind, rest) = rest.split_first()?;
        let size = match kind {
            0 | 1 => 0,
            2 => 1,
            3 => 2,
            4 => 4,
            5 | 8 => 8,
            9 => 16,
            6 | 7 => {
                let size = rest.first_chunk::<2>()?;
                let (value, after) = rest
                    .get(2..)?
                    .split_at_checked(usize::from(u16::from_be_bytes(*size)))?;
                if *kind == 7 {
                    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                    headers.push((text(name), text(value)));
                }
                bytes = after;
                continue;
            }
            _ => return None,
        };
        (_, bytes) = rest.split_at_checked(size)?;
    }
    Some(headers)
}

/// CRC-32 as gzip has it (RFC 1952, 8). Bit by bit: it is a table less, and answers are small.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            let carry = if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
            (crc >> 1) ^ carry
        })
    })
}

/// A message as a server sends it.
#[cfg(test)]
pub(crate) fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(u8::try_from(name.len()).unwrap());
        block.extend_from_slice(name.as_bytes());
        block.push(7);
        block.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        block.extend_from_slice(value.as_bytes());
    }
    let total = u32::try_from(PRELUDE + block.len() + payload.len() + CHECKSUM).unwrap();
    let mut message = total.to_be_bytes().to_vec();
    message.extend_from_slice(&u32::try_from(block.len()).unwrap().to_be_bytes());
    message.extend_from_slice(&crc32(&message).to_be_bytes());
    message.extend_from_slice(&block);
    message.extend_from_slice(payload);
    message.extend_from_slice(&crc32(&message).to_be_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_gzip() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn messages_out_of_any_chunks() {
        let mut bytes = frame(
            &[(":message-type", "event"), (":event-type", "messageStop")],
            b"{}",
        );
        bytes.extend(frame(&[], b""));
        for size in 1..bytes.len() {
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for chunk in bytes.chunks(size) {
                frames.push(chunk);
                while let Some(frame) = frames.next().unwrap() {
                    seen.push(frame);
                }
            }
            assert_eq!(seen.len(), 2);
            assert_eq!(
                (seen[0].header(":event-type"), seen[0].payload.as_slice()),
                ("messageStop", b"{}".as_slice())
            );
            assert_eq!(seen[1], Frame::default());
            assert!(frames.is_empty());
        }
    }

    #[test]
    fn every_bit_that_turns_is_seen() {
        let bytes = frame(&[(":event-type", "x")], b"payload");
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut frames = Frames::default();
            frames.push(&bytes);
            assert!(frames.next().is_err(), "{bit}");
        }
    }

    #[test]
    fn headers_of_every_kind() {
        let mut block = Vec::new();
        for (kind, size) in [(0_u8, 0), (1, 0), (2, 1), (3, 2), (4, 4), (5, 8), (8, 8), (9, 16)] {
            block.extend_from_slice(&[1, b'a', kind]);
            block.extend(std::iter::repeat_n(0_u8, size));
        }
        block.extend_from_slice(&[1, b'b', 6, 0, 1, 9, 1, b'c', 7, 0, 2, b'o', b'k']);
        assert_eq!(
            parse_headers(&block).unwrap(),
            [("c".to_owned(), "ok".to_owned())]
        );
        for wrong in [
            &[1_u8, b'a', 10][..],
            &[5, b'a'],
            &[1, b'a', 7, 0, 9, 0],
            &[1, b'a', 7, 0],
            &[1, b'a', 9, 0],
            &[0],
        ] {
            assert_eq!(parse_headers(wrong), None, "{wrong:?}");
        }
    }
}

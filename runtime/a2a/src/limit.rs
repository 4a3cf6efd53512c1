//! The bounds of connections and requests. Each says why it is what it is.

use std::time::Duration;

use crate::budget::Share;

/// One request body: a message of text. Larger things go by reference.
pub const BODY_BYTES: usize = 1024 * 1024;
/// Values in one body: one takes some ten times the memory of its shortest text, and no message has so many.
pub const VALUES: usize = 64 * 1024;
/// Bodies that are being read, until they are understood and stored. In memory they are a few times this.
pub(crate) const READING: Share = Share {
    all: 16 * BODY_BYTES,
    each: 4 * BODY_BYTES,
    // Each has a head, of up to `HEAD_BYTES`.
    waiting: 128,
};
/// What an answer may take before its size is known: the caller's message, and what was said to it.
pub(crate) const ANSWER_BYTES: usize = 2 * BODY_BYTES;
/// Answers, from the store to the caller's last byte. One that waits for its turn holds nothing but its name.
pub(crate) const ANSWERING: Share = Share {
    all: 16 * BODY_BYTES,
    each: 8 * BODY_BYTES,
    waiting: usize::MAX,
};
/// How long an answer waits for its turn while the caller leaves others unread.
pub const TURN: Duration = Duration::from_secs(60);
/// The head of an HTTP/1 request, and the header list of an HTTP/2 one: tokens and trace state fit with room.
pub const HEAD_BYTES: usize = 32 * 1024;
/// Header lines of an HTTP/1 request.
pub const HEADERS: usize = 100;
/// Requests at once on one HTTP/2 connection: a caller that waits for more tasks opens a second connection.
pub const STREAMS: u32 = 100;
/// Connections at once. What is above is closed at once, so that file descriptors and memory last.
pub const CONNECTIONS: usize = 1024;
/// Connections of one peer with a certificate: a quarter, so that nobody has all of them.
pub const CONNECTIONS_OF_ONE: usize = CONNECTIONS / 4;
/// From accept to the end of the TLS handshake: a slow link needs three round trips.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// From the first wait for a request to the end of its head, idle time between two requests included.
pub const HEAD: Duration = Duration::from_secs(30);
/// From the head to the end of the body.
pub const BODY: Duration = Duration::from_secs(30);
/// A connection without a request in flight is closed after this time.
pub const IDLE: Duration = Duration::from_secs(120);
/// The same, and [`HEAD`], for a TLS connection without a client certificate: it is there for the card only.
pub const IDLE_STRANGER: Duration = Duration::from_secs(10);
/// The whole life of such a connection, whatever it does.
pub const AGE_STRANGER: Duration = Duration::from_secs(60);
/// What one HTTP/2 connection may have sent and we have not read: strangers may fill it, so it is small.
pub const WINDOW: u32 = 128 * 1024;
/// A connection is ended in good order after this time, so that what was verified in its handshake (dates, chain) is
/// verified again.
pub const AGE: Duration = Duration::from_secs(3600);
/// What is in flight on a connection that has reached its age may take this long: a turn at its default limit, whose
/// caller waits for the answer.
pub const LINGER: Duration = Duration::from_secs(3600);
/// HTTP/2 pings find a peer that is gone without saying so.
pub const PING: Duration = Duration::from_secs(30);
/// How long a ping may stay unanswered.
pub const PONG: Duration = Duration::from_secs(20);
/// A message id, context id or task id of a caller.
pub const ID_CHARS: usize = 256;
/// Parts of one message.
pub const PARTS: usize = 256;
/// Levels of lists and objects in a part: where it is kept it stands deeper, and what a reader takes is 127.
pub const PART_LEVELS: usize = 64;

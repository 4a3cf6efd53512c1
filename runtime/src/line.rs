//! One line of the log while it is put together: the members of a JSON object in their order, each as it is written, one
//! after the other in one buffer, so that no value is made of what is only written down. Guarantees: a name stands there
//! once; what comes later takes the place of what had it. Pure.

use std::ops::Range;

use serde::Serialize;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line {
    /// The values as JSON.
    written: Vec<u8>,
    members: Vec<(&'static str, Range<usize>)>,
}

impl Line {
    /// A value under a name.
    pub(crate) fn put<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) {
        let start = self.written.len();
        write(&mut self.written, value);
        self.name(name, start..self.written.len());
    }

    /// All members of another one.
    pub(crate) fn extend(&mut self, more: &Self) {
        let before = self.written.len();
        self.written.extend_from_slice(&more.written);
        for (name, place) in &more.members {
            self.name(name, before + place.start..before + place.end);
        }
    }

    /// What stands at this place is the value of this name.
    fn name(&mut self, name: &'static str, place: Range<usize>) {
        match self.members.iter_mut().find(|(known, _)| *known == name) {
            Some((_, before)) => *before = place,
            None => self.members.push((name, place)),
        }
    }

    /// The object.
    pub(crate) fn json(&self) -> String {
        let names: usize = self.members.iter().map(|(name, _)| name.len() + 4).sum();
        let mut out = Vec::with_capacity(self.written.len() + names + 2);
        out.push(b'{');
        for (name, place) in &self.members {
            if out.len() > 1 {
                out.push(b',');
            }
            write(&mut out, name);
            out.push(b':');
            out.extend_from_slice(self.written.get(place.clone()).unwrap_or_default());
        }
        out.push(b'}');
        // serde_json writes nothing but UTF-8.
        String::from_utf8(out).unwrap_or_default()
    }
}

/// As JSON. What is written is a text, a number or a truth value, of which none fails in memory.
fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_once_with_what_came_last() {
        let mut line = Line::default();
        assert_eq!(line.json(), "{}");
        line.put("a", "x\"\n");
        line.put("b.c", &7);
        line.put("odd \"name\"", &f64::NAN);
        line.put("a", &true);
        let mut more = Line::default();
        more.put("d", "é");
        more.put("b.c", &-1);
        line.extend(&more);
        assert_eq!(line.json(), r#"{"a":true,"b.c":-1,"odd \"name\"":null,"d":"é"}"#);
    }
}

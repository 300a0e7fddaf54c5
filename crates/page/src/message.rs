//! Messages between a page and the engine: a JSON document, and arrays of numbers and bytes beside it.

use serde_json::{Map, Value, json};

/// Reply or question: a JSON object, and the bytes of its arrays. As bytes: the length of the JSON text in 4 bytes, little-endian, the text,
/// zeros up to a multiple of 8 bytes, and the bytes of the arrays. Each array begins at a multiple of 8 bytes. The key `arrays` of the object
/// has for each array, by name, its type, its offset from the first byte of the first array, and its number of elements.
#[derive(Debug, Default)]
pub struct Message {
    head: Map<String, Value>,
    arrays: Map<String, Value>,
    bytes: Vec<u8>,
}

impl Message {
    /// Creates a message without arrays from a JSON object.
    ///
    /// # Panics
    ///
    /// Panics if `head` is not an object.
    pub fn new(head: Value) -> Self {
        let Value::Object(head) = head else { panic!("the head of a message is an object") };
        Self { head, ..Self::default() }
    }

    /// Adds an array of 64-bit floating-point numbers.
    pub fn floats(&mut self, name: &str, values: impl ExactSizeIterator<Item = f64>) {
        self.begin(name, "f64", values.len());
        values.for_each(|value| self.bytes.extend_from_slice(&value.to_le_bytes()));
    }

    /// Adds an array of unsigned 32-bit integers.
    pub fn integers(&mut self, name: &str, values: impl ExactSizeIterator<Item = u32>) {
        self.begin(name, "u32", values.len());
        values.for_each(|value| self.bytes.extend_from_slice(&value.to_le_bytes()));
    }

    /// Adds an array of bytes.
    pub fn bytes(&mut self, name: &str, values: &[u8]) {
        self.begin(name, "u8", values.len());
        self.bytes.extend_from_slice(values);
    }

    fn begin(&mut self, name: &str, kind: &str, len: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        self.arrays.insert(name.into(), json!([kind, self.bytes.len(), len]));
    }

    /// Returns the message as bytes.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.head.insert("arrays".into(), Value::Object(self.arrays));
        let text = Value::Object(self.head).to_string();
        let mut all = Vec::with_capacity(LEN + text.len() + ALIGNMENT + self.bytes.len());
        all.extend_from_slice(&(text.len() as u32).to_le_bytes());
        all.extend_from_slice(text.as_bytes());
        all.resize(all.len().next_multiple_of(ALIGNMENT), 0);
        all.extend_from_slice(&self.bytes);
        all
    }
}

/// Splits the bytes of a message into its JSON text and the bytes of its arrays. Returns `None` if they are no message.
pub(crate) fn split(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = message.split_first_chunk::<LEN>()?;
    let len = u32::from_le_bytes(*len) as usize;
    let text = rest.get(..len)?;
    Some((text, message.get((LEN + len).next_multiple_of(ALIGNMENT)..).unwrap_or(&[])))
}

/// Size of the length of the JSON text, bytes.
const LEN: usize = 4;
const ALIGNMENT: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_begin_at_multiples_of_eight_bytes_and_keep_their_values() {
        let mut message = Message::new(json!({"kind": "test"}));
        message.bytes("text", b"abc");
        message.floats("times", [1.5, f64::NAN].into_iter());
        message.integers("numbers", [7, u32::MAX].into_iter());
        let bytes = message.into_bytes();
        let (text, arrays) = split(&bytes).unwrap();
        let head: Value = serde_json::from_slice(text).unwrap();
        let expected = json!({"text": ["u8", 0, 3], "times": ["f64", 8, 2], "numbers": ["u32", 24, 2]});
        assert_eq!((&head["kind"], &head["arrays"]), (&json!("test"), &expected));
        assert_eq!((bytes.len() - arrays.len()) % 8, 0);
        assert_eq!(&arrays[..3], b"abc");
        assert_eq!(f64::from_le_bytes(arrays[8..16].try_into().unwrap()), 1.5);
        assert_eq!(u32::from_le_bytes(arrays[28..32].try_into().unwrap()), u32::MAX);
    }

    #[test]
    fn what_is_cut_short_is_no_message() {
        let bytes = Message::new(json!({"kind": "test"})).into_bytes();
        assert!((0..14).all(|len| split(&bytes[..len]).is_none()));
    }
}

//! JSON values of any type, of which what can be read is kept. A field of a HAR that is missing or odd must not refuse the file: writers
//! disagree about nearly all of them.

use serde::de::{self, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess};
use serde::{Deserialize, de::value::MapAccessDeserializer};
use std::fmt;
use std::marker::PhantomData;

/// Readable part of a JSON value; `None` if the value has another type, or makes no sense.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lenient<T>(pub(super) Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// Type that is read from JSON values of some types, and not from the others.
pub(super) trait FromAny: Sized {
    /// Reads a text.
    fn of_text(_text: &str) -> Option<Self> {
        None
    }
    /// Reads a number.
    fn of_number(_number: f64) -> Option<Self> {
        None
    }
    /// Reads true or false.
    fn of_bool(_is_true: bool) -> Option<Self> {
        None
    }
    /// Reads an object. All of its entries must be taken.
    fn of_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Option<Self>, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
    /// Reads a list. All of its elements must be taken.
    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl<'de, T: FromAny> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(Visitor(PhantomData)).map(Self)
    }
}

struct Visitor<T>(PhantomData<T>);

impl<'de, T: FromAny> de::Visitor<'de> for Visitor<T> {
    type Value = Option<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }
    fn visit_str<E>(self, text: &str) -> Result<Option<T>, E> {
        Ok(T::of_text(text))
    }
    fn visit_f64<E>(self, number: f64) -> Result<Option<T>, E> {
        Ok(T::of_number(number))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Option<T>, E> {
        Ok(T::of_number(number as f64))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Option<T>, E> {
        Ok(T::of_number(number as f64))
    }
    fn visit_bool<E>(self, is_true: bool) -> Result<Option<T>, E> {
        Ok(T::of_bool(is_true))
    }
    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }
    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Option<T>, A::Error> {
        T::of_object(object)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Option<T>, A::Error> {
        T::of_list(list)
    }
}

/// Object with lenient fields.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<T: DeserializeOwned> FromAny for Object<T> {
    fn of_object<'de, A: MapAccess<'de>>(object: A) -> Result<Option<Self>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(object)).map(|fields| Some(Self(fields)))
    }
}

/// List; elements of other types are left out, and counted.
#[derive(Debug)]
pub(super) struct List<T> {
    pub(super) elements: Vec<T>,
    /// Number of elements that make no sense.
    pub(super) odd: usize,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { elements: Vec::new(), odd: 0 }
    }
}

impl<T: FromAny> FromAny for List<T> {
    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        let mut read = Self::default();
        while let Some(Lenient(element)) = list.next_element()? {
            match element {
                Some(element) => read.elements.push(element),
                None => read.odd += 1,
            }
        }
        Ok(Some(read))
    }
}

impl FromAny for f64 {
    fn of_number(number: f64) -> Option<Self> {
        Some(number)
    }
    fn of_text(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|number: &f64| number.is_finite())
    }
}

impl FromAny for bool {
    fn of_bool(is_true: bool) -> Option<Self> {
        Some(is_true)
    }
}

impl FromAny for String {
    fn of_text(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.into())
    }
    fn of_number(number: f64) -> Option<Self> {
        Some(number.to_string())
    }
}

/// Length of a text whose characters are not kept, bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length(pub(super) usize);

impl FromAny for Length {
    fn of_text(text: &str) -> Option<Self> {
        Some(Self(text.len()))
    }
    fn of_number(number: f64) -> Option<Self> {
        Some(Self(number.to_string().len()))
    }
}

/// Text of which only the beginning is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Short {
    text: String,
    /// Length of the whole text, bytes.
    pub(super) length: usize,
}

impl Short {
    /// Number of bytes that are kept: more than servers accept in a field of a header.
    const MAX_BYTES: usize = 1 << 16;

    /// Returns the beginning of a text; empty if there is none.
    pub(super) fn text(of: &Lenient<Self>) -> &str {
        of.0.as_ref().map_or("", |short| &short.text)
    }
}

impl FromAny for Short {
    fn of_text(text: &str) -> Option<Self> {
        let limit = text.len().min(Self::MAX_BYTES);
        let end = (0..=limit).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        Some(Self { text: text[..end].into(), length: text.len() })
    }
    fn of_number(number: f64) -> Option<Self> {
        Self::of_text(&number.to_string())
    }
}

/// Presence of a value other than null, false, zero and an empty text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present;

impl FromAny for Present {
    fn of_text(text: &str) -> Option<Self> {
        (!text.is_empty()).then_some(Self)
    }
    fn of_number(number: f64) -> Option<Self> {
        (number != 0.0).then_some(Self)
    }
    fn of_bool(is_true: bool) -> Option<Self> {
        is_true.then_some(Self)
    }
    fn of_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Option<Self>, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Some(Self))
    }
}

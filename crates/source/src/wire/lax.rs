//! A field that may hold a value, nothing, or something of a wrong type.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::protobuf::{Broken, Fields, Value};

/// Text of a field. A list of ten thousand objects has a quarter of a million, nearly all of them shorter than the 24 bytes that need no
/// memory of their own.
pub(crate) type Text = smol_str::SmolStr;

/// A field as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lax<T> {
    /// Missing or null.
    #[default]
    Absent,
    /// A value of the type that the API has for the field.
    Is(T),
    /// A value of another type; what it was is kept for the complaint, the value itself is not.
    Wrong(&'static str),
}

/// A list whose elements are judged one by one.
pub(crate) type List<T> = Vec<Lax<T>>;

impl<T> Lax<T> {
    /// The value, if there is one of the right type.
    pub(crate) fn as_ref(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Wrong(_) => None,
        }
    }
}

impl<T: Default> Lax<T> {
    /// Takes the value out; an empty one if there is none of the right type.
    pub(crate) fn take_or_default(&mut self) -> T {
        match self {
            Self::Is(value) => std::mem::take(value),
            Self::Absent | Self::Wrong(_) => T::default(),
        }
    }

    /// Takes the fields of a record in protobuf.
    pub(crate) fn merge(&mut self, record: Value<'_>, mut take: impl FnMut(&mut T, u32, Value<'_>)) {
        let mut value = self.take_or_default();
        let whole = record.bytes().ok_or(Broken).and_then(|bytes| {
            Fields::of(bytes)
                .try_for_each(|field| field.map(|(number, field)| take(&mut value, number, field)))
        });
        *self = or_wrong(whole.ok().map(|()| value), "broken");
    }
}

impl Lax<Text> {
    /// The text; empty if there is none.
    pub(crate) fn text(&self) -> &str {
        self.as_ref().map_or("", Text::as_str)
    }
}

/// Which types a field accepts. Each method but the last answers for one type of JSON; the defaults refuse it.
pub(crate) trait Shape: Sized {
    /// The expected type, for complaints.
    const WANTED: &'static str;

    /// Accepts true and false.
    fn of_flag(_: bool) -> Option<Self> {
        None
    }

    /// Accepts integers; those beyond 64 bits arrive as the nearest 64-bit one.
    fn of_integer(_: i64) -> Option<Self> {
        None
    }

    /// Accepts text.
    fn of_text(_: &str) -> Option<Self> {
        None
    }

    /// Accepts arrays. Every element must be consumed, also of an array that is refused.
    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    /// Accepts objects. Every entry must be consumed, also of an object that is refused.
    fn of_record<'de, A: MapAccess<'de>>(mut record: A) -> Result<Option<Self>, A::Error> {
        while record.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    /// Takes a value in protobuf. What came earlier in the same place is replaced, or goes on: lists and records come in pieces.
    fn of_protobuf(into: &mut Lax<Self>, value: Value<'_>);
}

impl Shape for Text {
    const WANTED: &'static str = "text";

    fn of_text(text: &str) -> Option<Self> {
        Some(text.into())
    }

    fn of_protobuf(into: &mut Lax<Self>, value: Value<'_>) {
        let text = value.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok());
        *into = or_wrong(text.map(Self::from), "bytes");
    }
}

impl Shape for i64 {
    const WANTED: &'static str = "a whole number";

    fn of_integer(number: i64) -> Option<Self> {
        Some(number)
    }

    fn of_protobuf(into: &mut Lax<Self>, value: Value<'_>) {
        *into = or_wrong(value.number().map(u64::cast_signed), "bytes");
    }
}

impl Shape for bool {
    const WANTED: &'static str = "true or false";

    fn of_flag(flag: bool) -> Option<Self> {
        Some(flag)
    }

    fn of_protobuf(into: &mut Lax<Self>, value: Value<'_>) {
        *into = or_wrong(value.number().map(|number| number != 0), "bytes");
    }
}

impl<T: Shape> Shape for List<T> {
    const WANTED: &'static str = "a list";

    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        let mut elements = Self::new();
        while let Some(element) = list.next_element()? {
            elements.push(element);
        }
        Ok(Some(elements))
    }

    fn of_protobuf(into: &mut Lax<Self>, value: Value<'_>) {
        let mut element = Lax::Absent;
        T::of_protobuf(&mut element, value);
        let mut list = into.take_or_default();
        list.push(element);
        *into = Lax::Is(list);
    }
}

impl<'de, T: Shape> Deserialize<'de> for Lax<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LaxVisitor(PhantomData))
    }
}

struct LaxVisitor<T>(PhantomData<T>);

/// A refused value is remembered by what it was.
fn or_wrong<T>(value: Option<T>, found: &'static str) -> Lax<T> {
    value.map_or(Lax::Wrong(found), Lax::Is)
}

impl<'de, T: Shape> Visitor<'de> for LaxVisitor<T> {
    type Value = Lax<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::WANTED)
    }

    fn visit_unit<E: Error>(self) -> Result<Lax<T>, E> {
        Ok(Lax::Absent)
    }

    fn visit_none<E: Error>(self) -> Result<Lax<T>, E> {
        Ok(Lax::Absent)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Lax<T>, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Lax<T>, E> {
        Ok(or_wrong(T::of_flag(flag), "true or false"))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Lax<T>, E> {
        Ok(or_wrong(T::of_integer(number), "a number"))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Lax<T>, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<Lax<T>, E> {
        let nearest = if number < 0 { i64::MIN } else { i64::MAX };
        self.visit_i64(i64::try_from(number).unwrap_or(nearest))
    }

    fn visit_u128<E: Error>(self, number: u128) -> Result<Lax<T>, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Lax<T>, E> {
        Ok(Lax::Wrong("a fraction"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Lax<T>, E> {
        Ok(or_wrong(T::of_text(text), "text"))
    }

    fn visit_bytes<E: Error>(self, _: &[u8]) -> Result<Lax<T>, E> {
        Ok(Lax::Wrong("bytes"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Lax<T>, A::Error> {
        Ok(or_wrong(T::of_list(list)?, "a list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, record: A) -> Result<Lax<T>, A::Error> {
        Ok(or_wrong(T::of_record(record)?, "an object"))
    }
}

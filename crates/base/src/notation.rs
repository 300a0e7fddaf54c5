//! Text notation of queues, loss models, congestion controls and other configurable components in scenario files, on the command line and
//! in results: a name followed by parameters, as in `red:40,minimum=8`.

use crate::ParseError;
use crate::equivalents::equivalent;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

/// Notation of a kind, such as `red:LIMIT`, and the description of the kind for users.
pub type Usage = (&'static str, &'static str);

/// Configuration of one kind of queue, loss model, congestion control or other component, with its text notation. An implementation is in
/// the same file as the component that it configures. This file parses, checks, writes, documents and builds the component; the family,
/// defined with [`kinds!`](crate::kinds), needs only one line for it.
pub trait Kind: Sized {
    /// Notations of this kind. Each begins with a name, which ends at `:` or `[`.
    const USAGE: &'static [Usage];
    /// Example notations that cover every notation of the kind. The values are small, so that a few packets suffice to exercise the
    /// component. The tests of a family run all examples.
    const EXAMPLES: &'static [&'static str];
    /// Parses and checks the parameters after the name.
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError>;
    /// Writes the notation from which `read` parses the same value.
    fn write(&self, to: &mut Written);
}

/// Member of the family `F` of kinds: its notations, examples and parser.
pub struct Member<F> {
    /// Notations; see [`Kind::USAGE`].
    pub usage: &'static [Usage],
    /// Examples; see [`Kind::EXAMPLES`].
    pub examples: &'static [&'static str],
    /// Parses and checks the parameters after the name.
    pub read: fn(&mut Notation<'_>) -> Result<F, ParseError>,
}

/// Family of alternative kinds, such as all queues. A configuration selects one kind of the family.
pub trait Family: Sized + 'static {
    /// All members of the family.
    const KINDS: &'static [Member<Self>];

    /// Returns the notations of all kinds, with their descriptions.
    fn usages() -> Vec<Usage> {
        Self::KINDS.iter().flat_map(|kind| kind.usage).copied().collect()
    }

    /// Returns examples of all kinds.
    ///
    /// # Panics
    ///
    /// Panics if an example cannot be parsed.
    fn examples() -> Vec<Self> {
        let read = |text| Self::read_any(text).unwrap_or_else(|error| panic!("an example is wrong: {error}"));
        Self::KINDS.iter().flat_map(|kind| kind.examples).copied().map(read).collect()
    }

    /// Parses the notation of any kind of the family.
    fn read_any(text: &str) -> Result<Self, ParseError> {
        let mut text = Notation::of_family::<Self>(text)?;
        let kind = Self::KINDS.iter().find(|kind| text.is_one_of(kind.usage)).expect("it is of the family");
        let read = (kind.read)(&mut text)?;
        text.finish_as(kind.usage)?;
        Ok(read)
    }
}

/// Every kind is also a family whose only member is the kind itself.
impl<K: Kind + 'static> Family for K {
    const KINDS: &'static [Member<Self>] =
        &[Member { usage: K::USAGE, examples: K::EXAMPLES, read: K::read }];
}

/// Implements `FromStr` for a family, which parses the notation of any of its kinds.
#[doc(hidden)]
#[macro_export]
macro_rules! from_text {
    ($Family:ty) => {
        impl std::str::FromStr for $Family {
            type Err = $crate::ParseError;
            fn from_str(text: &str) -> Result<Self, $crate::ParseError> {
                <Self as $crate::notation::Family>::read_any(text)
            }
        }
    };
}

/// Implements `FromStr` and `Display` for a single [`Kind`], by its notation.
#[macro_export]
macro_rules! as_text {
    ($Kind:ty) => {
        $crate::from_text!($Kind);

        impl std::fmt::Display for $Kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", $crate::notation::Written::of(self))
            }
        }
    };
}

/// Defines a family of kinds, as in
/// ```
/// # use catnip_base::kinds;
/// # use catnip_base::notation::{Kind, Notation, Usage, Written};
/// # use catnip_base::ParseError;
/// # #[derive(Clone, Debug, PartialEq)]
/// # pub struct Square(u32);
/// # impl Kind for Square {
/// #     const USAGE: &'static [Usage] = &[("square:SIDE", "four equal sides")];
/// #     const EXAMPLES: &'static [&'static str] = &["square:3"];
/// #     fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> { text.value("a side").map(Square) }
/// #     fn write(&self, to: &mut Written) { to.name("square").value(self.0); }
/// # }
/// kinds! {
///     /// A shape.
///     pub enum Shape { Square(Square) }
/// }
/// assert_eq!("square:3".parse::<Shape>().unwrap().to_string(), "square:3");
/// ```
#[macro_export]
macro_rules! kinds {
    ($(#[$about:meta])* $visible:vis enum $Family:ident { $($Kind:ident($Spec:ty)),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        $visible enum $Family {
            $(#[doc = concat!("See [`", stringify!($Spec), "`].")] $Kind($Spec)),+
        }

        impl $crate::notation::Family for $Family {
            const KINDS: &'static [$crate::notation::Member<Self>] = &[$($crate::notation::Member {
                usage: <$Spec as $crate::notation::Kind>::USAGE,
                examples: <$Spec as $crate::notation::Kind>::EXAMPLES,
                read: |text| <$Spec as $crate::notation::Kind>::read(text).map(Self::$Kind),
            }),+];
        }

        $crate::from_text!($Family);

        impl std::fmt::Display for $Family {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self { $(Self::$Kind(kind) => write!(f, "{}", $crate::notation::Written::of(kind))),+ }
            }
        }
    };
}

/// Defines a family of kinds without parameters. Each kind is a variant of an enum and is given by a name with a description.
#[macro_export]
macro_rules! keywords {
    ($(#[$about:meta])* $visible:vis enum $Family:ident { $($(#[$doc:meta])* $Kind:ident = $usage:expr),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visible enum $Family {
            $($(#[$doc])* $Kind),+
        }

        impl $Family {
            /// All kinds of the family.
            $visible const ALL: &'static [Self] = &[$(Self::$Kind),+];

            /// Returns the name of the kind.
            $visible fn name(self) -> &'static str {
                $crate::notation::name(self.usage())
            }

            /// Returns the name of the kind and its description.
            $visible fn usage(self) -> $crate::notation::Usage {
                match self { $(Self::$Kind => $usage),+ }
            }
        }

        impl $crate::notation::Family for $Family {
            const KINDS: &'static [$crate::notation::Member<Self>] =
                &[$($crate::notation::Member {
                    usage: &[$usage],
                    examples: &[$crate::notation::name($usage)],
                    read: |_| Ok(Self::$Kind),
                }),+];
        }

        $crate::from_text!($Family);

        impl std::fmt::Display for $Family {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

/// Returns the candidate that is most similar to `token`; `None` if no candidate is similar enough.
pub fn nearest<'a>(token: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let with_similarity =
        |candidate: &'a str| (strsim::normalized_damerau_levenshtein(token, candidate), candidate);
    let similar =
        candidates.into_iter().map(with_similarity).filter(|(similarity, _)| (0.6..1.0).contains(similarity));
    similar.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, candidate)| candidate)
}

/// Returns the end of an error message that suggests the candidate most similar to `token`; an empty text if no candidate is similar
/// enough.
pub fn did_you_mean<'a>(token: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(token, candidates).map_or_else(String::new, |candidate| format!("; did you mean {candidate}?"))
}

/// Returns the name with which a notation begins.
pub const fn name((form, _): Usage) -> &'static str {
    let mut end = 0;
    while end < form.len() && !matches!(form.as_bytes()[end], b':' | b'[') {
        end += 1;
    }
    form.split_at(end).0
}

/// Parses an optional value. The text `none` stands for no value.
pub fn optional<T: FromStr<Err = ParseError>>(text: &str) -> Result<Option<T>, ParseError> {
    if text == "none" { Ok(None) } else { text.parse().map(Some) }
}

/// Writes an optional value, or `none` for no value.
pub fn or_none<T: fmt::Display>(value: Option<&T>) -> String {
    value.map_or_else(|| "none".into(), T::to_string)
}

/// Parsed notation `name:value,…,key=value,…`. A comma within parentheses does not separate values.
#[derive(Debug)]
pub struct Notation<'a> {
    text: String,
    name: &'a str,
    values: std::vec::IntoIter<&'a str>,
    options: Vec<(&'a str, &'a str)>,
}

/// Iterates over the values without a key.
impl<'a> Iterator for Notation<'a> {
    type Item = &'a str;
    fn next(&mut self) -> Option<&'a str> {
        self.values.next()
    }
}

impl<'a> Notation<'a> {
    /// Parses a notation.
    pub fn parse(text: &'a str) -> Result<Self, ParseError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        if name.is_empty() {
            return Err(ParseError::new(text, "a name, followed by a colon and parameters if there are any"));
        }
        Ok(Self { text: text.into(), name, ..Self::nameless(rest) })
    }

    /// Parses a notation whose name must be that of a kind of the family `F`.
    pub(crate) fn of_family<F: Family>(text: &'a str) -> Result<Self, ParseError> {
        let text = Self::parse(text)?;
        let usages = F::usages();
        if text.is_one_of(&usages) { Ok(text) } else { Err(text.unknown(usages)) }
    }

    /// Returns the error for a name that is not among the names of `usages`.
    fn unknown(&self, usages: Vec<Usage>) -> ParseError {
        if let Some(notation) = equivalent(self.name) {
            return self
                .error_because(format!("{} is a name of tc, ns-2 or ns-3; here: {notation}", self.name));
        }
        let mut names: Vec<&str> = usages.into_iter().map(name).collect();
        names.dedup();
        let suggestion = did_you_mean(self.name, names.iter().copied());
        self.error(format!("one of {}{suggestion}", names.join(", ")))
    }

    /// Parses a notation without a name: `value,…,key=value,…`.
    pub fn nameless(text: &'a str) -> Self {
        // Text in parentheses is a separate notation.
        let mut depth = 0u32;
        let separates = |c| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        };
        let parts = text.split(separates).map(str::trim).filter(|part| !part.is_empty());
        let (mut values, mut options) = (Vec::new(), Vec::new());
        for part in parts {
            match part.split_once('=') {
                Some((key, value)) => options.push((key.trim(), value.trim())),
                None => values.push(part),
            }
        }
        Self { text: text.into(), name: "", values: values.into_iter(), options }
    }

    /// Returns the name with which the notation begins.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Removes all values and keys, and returns the text after the name as it was written.
    pub fn rest(&mut self) -> &str {
        self.values = Vec::new().into_iter();
        self.options.clear();
        self.text.split_once(':').map_or("", |(_, rest)| rest)
    }

    /// Returns an error with the whole text of the notation and the expected form.
    pub fn error(&self, expected: impl Into<String>) -> ParseError {
        ParseError::new(self.text.as_str(), expected)
    }

    /// Returns an error with the whole text of the notation and the reason.
    fn error_because(&self, reason: String) -> ParseError {
        ParseError::because(self.text.as_str(), reason)
    }

    /// Returns the error for an invalid part of the text. The error states that a number is too large, if `part` does, or else the expected
    /// form.
    pub fn error_of(&self, part: ParseError, expected: impl Into<String>) -> ParseError {
        if part.is_too_large() { part.with_value(self.text.as_str()) } else { self.error(expected) }
    }

    /// Parses the next value that has no key.
    pub fn value<T: FromStr>(&mut self, expected: &str) -> Result<T, ParseError> {
        let value = self.values.next().and_then(|value| value.parse().ok());
        value.ok_or_else(|| self.error(expected))
    }

    /// Removes a key and returns the text of its value; `None` if the key is absent.
    pub fn take(&mut self, key: &str) -> Option<&'a str> {
        let index = self.options.iter().position(|(other, _)| *other == key)?;
        Some(self.options.remove(index).1)
    }

    /// Parses the value of a required key.
    pub fn key<T: FromStr>(&mut self, key: &str) -> Result<T, ParseError> {
        let value = self.take(key).ok_or_else(|| self.error(format!("{key}=")))?;
        value.parse().map_err(|_| self.invalid_value(key, value))
    }

    /// Parses the value of a key, or returns the default if the key is absent.
    pub fn option<T: FromStr>(&mut self, key: &str, default: T) -> Result<T, ParseError> {
        match self.take(key) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| self.invalid_value(key, value)),
        }
    }

    /// Parses the value of a key, or returns `None` if the key is absent.
    pub fn optional<T: FromStr>(&mut self, key: &str) -> Result<Option<T>, ParseError> {
        let value = self.take(key);
        value.map(|value| value.parse().map_err(|_| self.invalid_value(key, value))).transpose()
    }

    /// Returns the error for a key with an invalid value.
    pub(crate) fn invalid_value(&self, key: &str, value: &str) -> ParseError {
        self.error(format!("a value for {key}, not {value:?}"))
    }

    /// Returns how often the text has a key.
    fn count_of(&self, key: &str) -> usize {
        let keys = self.text.split([':', ',']).filter_map(|part| part.split_once('='));
        keys.filter(|(other, _)| *other == key).count()
    }

    fn is_one_of(&self, usages: &[Usage]) -> bool {
        usages.iter().any(|&usage| name(usage) == self.name)
    }

    /// Returns an error if values or keys remain that were not parsed.
    pub fn finish(self) -> Result<(), ParseError> {
        self.finish_as(&[])
    }

    /// Returns an error if values or keys remain that were not parsed, with a suggestion from the keys of `usages`.
    pub(crate) fn finish_as(mut self, usages: &[Usage]) -> Result<(), ParseError> {
        let keys = usages.iter().flat_map(|(form, _)| form.split(['[', ']', ':', ',']));
        let keys = keys.filter_map(|part| part.split_once('=')).map(|(key, _)| key);
        match self.values.next().or(self.options.first().map(|(key, _)| *key)) {
            None => Ok(()),
            Some(extra) if self.name.is_empty() => {
                Err(self.error_because(format!("unknown parameter {extra:?}")))
            }
            Some(extra) if self.count_of(extra) > 1 => {
                Err(self.error_because(format!("{extra} occurs twice")))
            }
            Some(extra) => {
                let suggestion = did_you_mean(extra, keys);
                Err(self.error_because(format!("unknown parameter {extra:?} of {}{suggestion}", self.name)))
            }
        }
    }
}

/// Notation under construction.
#[derive(Debug, Default)]
pub struct Written {
    text: String,
    has_values: bool,
}

impl Written {
    /// Returns the notation of a kind.
    pub fn of(kind: &impl Kind) -> Self {
        let mut written = Self::default();
        kind.write(&mut written);
        written
    }

    /// Writes the name with which the notation begins.
    pub fn name(&mut self, name: &str) -> &mut Self {
        self.text.push_str(name);
        self
    }

    /// Adds a value without a key.
    pub fn value(&mut self, value: impl fmt::Display) -> &mut Self {
        self.text.push(if self.has_values { ',' } else { ':' });
        self.text.push_str(&value.to_string());
        self.has_values = true;
        self
    }

    /// Adds a value with its key.
    pub fn key(&mut self, key: &str, value: impl fmt::Display) -> &mut Self {
        self.value(format_args!("{key}={value}"))
    }

    /// Adds a value with its key, except if the value is the default.
    pub fn option<T: fmt::Display + PartialEq>(&mut self, key: &str, value: T, default: T) -> &mut Self {
        if value == default { self } else { self.key(key, value) }
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Kind that was registered at run time. It is accessible only through the interface `B`. Two kinds are equal if their notations are equal.
pub struct Custom<B: ?Sized> {
    written: String,
    kind: Arc<B>,
}

impl<B: ?Sized> Deref for Custom<B> {
    type Target = B;
    fn deref(&self) -> &B {
        &self.kind
    }
}

impl<B: ?Sized> Clone for Custom<B> {
    fn clone(&self) -> Self {
        Self { written: self.written.clone(), kind: self.kind.clone() }
    }
}

impl<B: ?Sized> PartialEq for Custom<B> {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl<B: ?Sized> fmt::Debug for Custom<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// Parsing requires a [`Registry`], because the names of registered kinds are not known at compile time.
impl<B: ?Sized> Kind for Custom<B> {
    const USAGE: &'static [Usage] = &[];
    const EXAMPLES: &'static [&'static str] = &[];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Err(text.error("the name of a registered kind"))
    }
    fn write(&self, to: &mut Written) {
        to.name(&self.written);
    }
}

type ReadCustom<B> = Box<dyn Fn(&str) -> Result<Custom<B>, ParseError> + Send + Sync>;

/// Kinds of one family that were registered at run time. The interface of the family is `B`.
pub struct Registry<B: ?Sized>(Vec<(&'static [Usage], ReadCustom<B>)>);

impl<B: ?Sized> Default for Registry<B> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<B: ?Sized + 'static> Registry<B> {
    /// Registers a kind. A kind with the name of a built-in kind is ignored. `share` converts the kind to the interface of its family:
    /// `|kind: MyKind| Arc::new(kind)`.
    pub fn add<K: Kind + 'static>(&mut self, share: fn(K) -> Arc<B>) {
        let read = move |text: &str| {
            let kind = K::read_any(text)?;
            Ok(Custom { written: Written::of(&kind).to_string(), kind: share(kind) })
        };
        self.0.push((K::USAGE, Box::new(read)));
    }

    /// Parses a built-in kind of the family `F`, or else a registered kind. `wrap` converts a registered kind to a member of the family.
    pub fn read<F: Family>(&self, text: &str, wrap: fn(Custom<B>) -> F) -> Result<F, ParseError> {
        let notation = Notation::parse(text)?;
        let built_in = F::KINDS.iter().any(|kind| notation.is_one_of(kind.usage));
        match self.0.iter().find(|(usage, _)| notation.is_one_of(usage)) {
            Some((_, read)) if !built_in => read(text).map(wrap),
            None if !built_in => {
                let registered = self.0.iter().flat_map(|(usages, _)| usages.iter().copied());
                Err(notation.unknown(F::usages().into_iter().chain(registered).collect()))
            }
            _ => F::read_any(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Comb {
        teeth: u32,
        gap: f64,
    }

    impl Kind for Comb {
        const USAGE: &'static [Usage] = &[("comb:TEETH[,gap=1]", "combs"), ("rake:TEETH", "rakes")];
        const EXAMPLES: &'static [&'static str] = &["comb:3", "rake:2,gap=5"];
        fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
            Ok(Self { teeth: text.value("a number of teeth")?, gap: text.option("gap", 1.0)? })
        }
        fn write(&self, to: &mut Written) {
            to.name("comb").value(self.teeth).option("gap", self.gap, 1.0);
        }
    }

    kinds! {
        /// Example family with a built-in and a custom kind.
        enum Tool { Comb(Comb), Custom(Custom<dyn fmt::Debug>) }
    }

    keywords! {
        /// Example keywords.
        enum Answer {
            /// Agreement.
            Yes = ("yes", "agrees"),
            /// Refusal.
            No = ("no", "refuses"),
        }
    }

    #[test]
    fn a_mistake_names_the_text_and_what_was_expected() {
        for (text, message) in [
            ("saw:3", "\"saw:3\": expected one of comb, rake"),
            ("cmob:3", "\"cmob:3\": expected one of comb, rake; did you mean comb?"),
            ("comb", "\"comb\": expected a number of teeth"),
            ("comb:x", "\"comb:x\": expected a number of teeth"),
            ("comb:3,gap=wide", "\"comb:3,gap=wide\": expected a value for gap, not \"wide\""),
            ("comb:3,4", "\"comb:3,4\": unknown parameter \"4\" of comb"),
            ("comb:3,colour=red", "\"comb:3,colour=red\": unknown parameter \"colour\" of comb"),
            ("comb:3,gip=2", "\"comb:3,gip=2\": unknown parameter \"gip\" of comb; did you mean gap?"),
            ("", "\"\": expected a name, followed by a colon and parameters if there are any"),
        ] {
            assert_eq!(text.parse::<Tool>().unwrap_err().to_string(), message);
        }
        assert_eq!(
            "perhaps".parse::<Answer>().unwrap_err().to_string(),
            "\"perhaps\": expected one of yes, no"
        );
    }

    #[test]
    fn a_word_is_read_by_its_name_and_stands_for_something() {
        assert_eq!(
            Answer::ALL.iter().map(|answer| answer.usage().1).collect::<Vec<_>>(),
            ["agrees", "refuses"]
        );
        assert!(Answer::ALL.iter().all(|&answer| answer.name().parse() == Ok(answer)));
    }

    #[test]
    fn what_is_written_says_only_what_differs_from_what_is_read_without_it() {
        assert_eq!("rake: 3 , gap = 1".parse::<Tool>().unwrap().to_string(), "comb:3");
        assert_eq!("comb:3,gap=0.25".parse::<Tool>().unwrap().to_string(), "comb:3,gap=0.25");
        assert_eq!("no".parse::<Answer>().unwrap().to_string(), "no");
        assert_eq!(Tool::usages(), [("comb:TEETH[,gap=1]", "combs"), ("rake:TEETH", "rakes")]);
    }

    #[test]
    fn what_stands_in_parentheses_stays_together() {
        let text = &mut Notation::parse("box:3,left=2(comb:3,gap=(1,2)),right=comb:(4, 5),6").unwrap();
        assert_eq!(
            (text.take("left"), text.take("right")),
            (Some("2(comb:3,gap=(1,2))"), Some("comb:(4, 5)"))
        );
        assert_eq!((text.next(), text.next(), text.next()), (Some("3"), Some("6"), None));
        let open = &mut Notation::nameless("a=(1,2),b=3),c=4");
        assert_eq!((open.take("a"), open.take("b"), open.take("c")), (Some("(1,2)"), Some("3)"), Some("4")));
        let error = Notation::nameless("1").finish().unwrap_err();
        assert_eq!(error.to_string(), "\"1\": unknown parameter \"1\"");
    }

    #[test]
    fn a_registered_kind_is_read_by_its_name_and_built_in_names_stay() {
        #[derive(Debug)]
        struct Saw(u32);
        impl Kind for Saw {
            const USAGE: &'static [Usage] = &[("saw:TEETH", "saws"), ("comb", "is taken")];
            const EXAMPLES: &'static [&'static str] = &["saw:7"];
            fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
                text.value("a number of teeth").map(Self)
            }
            fn write(&self, to: &mut Written) {
                to.name("saw").value(self.0);
            }
        }
        let mut registry: Registry<dyn fmt::Debug> = Registry::default();
        registry.add(|saw: Saw| Arc::new(saw));
        let read = |text| registry.read(text, Tool::Custom);
        assert_eq!(read("saw: 7").unwrap().to_string(), "saw:7");
        assert_eq!(read("saw:7").unwrap(), read("saw: 7").unwrap());
        assert_ne!(read("saw:7").unwrap(), read("saw:8").unwrap());
        assert!(matches!(read("comb:7").unwrap(), Tool::Comb(_)));
        assert!(read("saw:x").unwrap_err().to_string().contains("teeth"));
        assert!(read("axe").is_err() && "saw:7".parse::<Tool>().is_err());
    }
}

//! A contract file is laid over the compiled-in one: a value that it gives replaces that value, a list as a whole. What it
//! leaves out stays as it is.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// A value of the contract, or several by their names.
pub(super) trait Overlay {
    /// What a file gives of it.
    type File;

    fn lay(&mut self, file: Self::File);
}

/// What is given must have a value: without one it would pass for left out.
pub(super) fn given<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(from).map(Some)
}

/// Structs of the contract's values, of which each is in force, and beside each the struct of what a file gives.
macro_rules! part {
    ($($(#[$about:meta])* struct $name:ident over $file:ident {
        $($(#[$of:meta])* $field:ident: $type:ty,)+
    })+) => { $(
        $(#[$about])*
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            $($(#[$of])* pub $field: $type,)+
        }

        #[derive(Debug, Deserialize, Serialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        #[allow(clippy::struct_field_names, reason = "the fields have the file's names")]
        pub(super) struct $file {
            $(
                $(#[$of])*
                #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
                $field: Option<<$type as Overlay>::File>,
            )+
        }

        impl Overlay for $name {
            type File = $file;

            fn lay(&mut self, file: $file) {
                $(if let Some(value) = file.$field {
                    self.$field.lay(value);
                })+
            }
        }
    )+ };
}

/// Values that are replaced as a whole.
macro_rules! leaf {
    ($($type:ty),+) => { $(
        impl Overlay for $type {
            type File = Self;

            fn lay(&mut self, file: Self) {
                *self = file;
            }
        }
    )+ };
}

leaf!(String, u16, u64, usize, ResultPointers);

/// A list. YAML reads a name without a value as null, which would pass for an empty list.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct List<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let items = Option::deserialize(from)?;
        let unset = || Error::custom("a list without a value; write [] for an empty one");
        items.map(Self).ok_or_else(unset)
    }
}

impl<T> Overlay for List<T> {
    type File = Self;

    fn lay(&mut self, file: Self) {
        *self = file;
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// The pointers to each result, by its name.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct ResultPointers(pub BTreeMap<String, List<String>>);

impl<'de> Deserialize<'de> for ResultPointers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let named = Option::deserialize(from)?;
        let unset = || Error::custom("names without a value; write {} for none");
        named.map(Self).ok_or_else(unset)
    }
}

pub(super) use part;

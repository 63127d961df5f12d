//! Enums whose values have names in documents.

/// Defines an enum with the name of each value beside it, the list `ALL` in this order, and the conversions `name` and `from_name`.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)* }) => {
        $(#[$meta])*
        pub enum $type { $($(#[$doc])* $value),* }

        impl $type {
            /// Every value, in the order of declaration.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$value),*];

            /// Returns the name in documents.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }

            /// Returns the first value with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }
        }
    };
}

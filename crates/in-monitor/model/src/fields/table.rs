//! The macros that generate code from rows. A row has one of these forms:
//!
//! ```text
//! let NAME: TYPE = file(ATTR PLACE "FILE" FORMAT PACE BOUNDS, TELEMETRY, SINCE), PRESENTATION;
//! let NAME: TYPE = or(REASON), PRESENTATION;      a computed member; REASON until it is computed
//! let NAME: TYPE = is(VALUE), PRESENTATION;       a member that always has a value; VALUE until it is computed
//! part "NAME" (PATH), PRESENTATION;               a part of another member
//! made "NAME" = |item| READING, PRESENTATION;     computed from other members, never stored
//! ```
//!
//! PRESENTATION is `"TITLE", SECTION, UNIT, "HELP"` with any of the modifiers of [`Field`](super::Field): `.metric("…")`.

/// Defines the struct with the rows as members, and its value without any reading.
macro_rules! members {
    (
        $item:ident $table:ident { $($(#[$more_doc:meta])* $more:ident: $more_type:ty = $more_default:expr;)* }
        $($(let $member:ident: $type:ty =
                $(file($($file:tt)*))? $(or($reason:ident))? $(is($default:expr))?,)?
          $(part $part:literal ($($path:tt)+),)? $(made $made:literal = $get:expr,)?
          $title:literal, $section:ident, $unit:ident, $help:literal $(.$modifier:ident($($argument:tt)*))*;)*
        $(files { $($files:tt)* })?
    ) => {
        impl $item {
            /// Returns a value without any reading: each member has the initial value of its row. A member that is a file of the driver is
            /// missing because the chip has no files.
            pub fn absent() -> Self {
                Self {
                    $($($member: $(members!(@file $($file)*))? $(Err(crate::Missing::$reason))? $($default)?,)?)*
                    $($more: $more_default,)*
                }
            }
        }

        #[doc = concat!("One ", stringify!($item), ": a member for each row of [`", stringify!($table), "`], and what has rows of its own.")]
        #[derive(Clone, Debug, PartialEq)]
        pub struct $item {
            $($(#[doc = $help] pub $member: $type,)?)*
            $($(#[$more_doc])* pub $more: $more_type,)*
        }
    };
    (@file $($file:tt)*) => { Err(crate::Missing::RemoteChip) };
}

/// Defines the table of the rows.
macro_rules! table {
    (
        $(#[$doc:meta])*
        $item:ident $table:ident { $($more:tt)* }
        $($(let $member:ident: $type:ty =
                $(file($attr:ident $($file:tt)*))? $(or($reason:ident))? $(is($default:expr))?,)?
          $(part $part:literal ($($path:tt)+),)? $(made $made:literal = $get:expr,)?
          $title:literal, $section:ident, $unit:ident, $help:literal $(.$modifier:ident($($argument:tt)*))*;)*
        $(files { $($files:tt)* })?
    ) => {
        #[doc = concat!("The rows of [`", stringify!($item), "`].")]
        $(#[$doc])*
        pub const $table: &[crate::fields::Field<$item>] = &[$(crate::fields::Field::<$item>::new(
            $(stringify!($member))? $($part)? $($made)?,
            $title,
            crate::fields::Section::$section,
            crate::units::Unit::$unit,
            $help,
            $(|item: &$item| crate::fields::Member::get(&item.$member))? $(|item: &$item| crate::fields::Member::get(&item.$($path)+))? $($get)?,
            $(|item: &mut $item, value| crate::fields::Member::set(&mut item.$member, value))?
            $(|item: &mut $item, value| crate::fields::Member::set(&mut item.$($path)+, value))?
            $({ const _: &str = $made; |_, _| {} })?,
        )$($(.file(Attr::$attr))?)?$(.$modifier($($argument)*))*),*];
    };
}

/// Defines the files of the driver: those of the rows, then those that are read for other purposes.
macro_rules! files {
    (
        $item:ident $table:ident { $($more:tt)* }
        $($(let $member:ident: $type:ty =
                $(file($attr:ident $folder:ident $file:literal $format:ident $interval:ident $bounds:expr, $telemetry:literal, $since:expr))?
                $(or($reason:ident))? $(is($default:expr))?,)?
          $(part $part:literal ($($path:tt)+),)? $(made $made:literal = $get:expr,)?
          $title:literal, $section:ident, $unit:ident, $help:literal $(.$modifier:ident($($argument:tt)*))*;)*
        files { $($other:ident $other_place:ident $other_file:literal $other_format:ident $other_pace:ident $other_bounds:expr,
            $other_telemetry:literal, $other_since:expr;)* }
    ) => {
        /// Every file, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each is the file in its row")]
        pub enum Attr { $($($($attr,)?)?)* $($other),* }

        /// The files, in the order of [`Attr`].
        pub const ATTRIBUTES: &[Attribute] = &[
            $($($(Attribute {
                attr: Attr::$attr, folder: AttributeFolder::$folder, file: $file, format: Format::$format, interval: ReadInterval::$interval,
                bounds: $bounds, is_telemetry: $telemetry, since: $since,
            },)?)?)*
            $(Attribute {
                attr: Attr::$other, folder: AttributeFolder::$other_place, file: $other_file, format: Format::$other_format, interval: ReadInterval::$other_pace,
                bounds: $other_bounds, is_telemetry: $other_telemetry, since: $other_since,
            }),*
        ];

        impl $item {
            /// Sets each member that is a file of the driver.
            pub(crate) fn read_files(&mut self, files: &impl Files) {
                $($($(self.$member = files.read(Attr::$attr);)?)?)*
            }
        }
    };
}

pub(crate) use {files, members, table};

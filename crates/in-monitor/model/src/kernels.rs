//! Loaded kernels by type.

use crate::memory::Figure;

crate::named! {
    /// Type of a loaded kernel, in the order of their numbers. Fabric and dispatch kernels stay loaded while a device is open.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum KernelType {
        /// Kernel of a program.
        Application = "application",
        /// Kernel of the links between chips.
        Fabric = "fabric",
        /// Kernel of the command queues.
        Dispatch = "dispatch",
        /// An unnamed type.
        Other = "other",
    }
}

impl KernelType {
    /// Returns the type for a number in the client API and on the allocation socket.
    pub fn from_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Other)
    }

    /// Returns the name in lines of the allocation server.
    pub fn title(self) -> &'static str {
        match self {
            Self::Application => "Application",
            Self::Fabric => "Fabric",
            Self::Dispatch => "Dispatch",
            Self::Other => "Unknown",
        }
    }
}

/// Kernels of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelUse {
    /// Their bytes.
    pub used: u64,
    /// Number of loaded kernels.
    pub count: u64,
}

/// Loaded kernels, by type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelTypes([KernelUse; 4]);

impl KernelTypes {
    /// Adds kernels of one type.
    pub fn add(&mut self, kernel_type: KernelType, more: KernelUse) {
        let sum = &mut self.0[kernel_type as usize];
        sum.used = sum.used.saturating_add(more.used);
        sum.count = sum.count.saturating_add(more.count);
    }

    /// Returns the types with at least one kernel.
    pub fn iter(&self) -> impl Iterator<Item = (KernelType, KernelUse)> {
        KernelType::ALL.into_iter().zip(self.0).filter(|(_, kernels)| kernels.count > 0)
    }

    /// Sums the types of several figures. Returns `None` if a figure with kernels has unknown types.
    pub(crate) fn sum<'a>(figures: impl IntoIterator<Item = &'a Figure>) -> Option<Box<Self>> {
        let mut sum: Option<Box<Self>> = None;
        for figure in figures {
            match &figure.kernel_types {
                Some(types) => types.iter().for_each(|(kernel_type, kernels)| sum.get_or_insert_default().add(kernel_type, kernels)),
                None if figure.used.is_ok_and(|used| used > 0) => return None,
                None => {}
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Source;
    use crate::missing::Missing;

    #[test]
    fn types_are_summed_where_all_are_known() {
        let known = |kernel_type, used| {
            let mut types = KernelTypes::default();
            types.add(kernel_type, KernelUse { used, count: 1 });
            Figure { kernel_types: Some(Box::new(types)), ..Figure::used_only(used, Source::Ledger) }
        };
        let (one, other) = (known(KernelType::Fabric, 5), known(KernelType::Dispatch, 7));
        let (idle, absent) = (Figure::used_only(0, Source::Ledger), Figure::missing(Missing::NotTracked));
        let sum = KernelTypes::sum([&one, &other, &one, &idle, &absent]).unwrap();
        let expected = [(KernelType::Fabric, KernelUse { used: 10, count: 2 }), (KernelType::Dispatch, KernelUse { used: 7, count: 1 })];
        assert_eq!(sum.iter().collect::<Vec<_>>(), expected);
        assert_eq!(KernelTypes::sum([&one, &Figure::used_only(1, Source::Fdinfo)]), None);
        assert_eq!(KernelTypes::sum([&idle, &absent]), None);
    }

    #[test]
    fn names_and_numbers() {
        for (number, kernel_type) in (0..).zip(KernelType::ALL) {
            assert_eq!(KernelType::from_number(number), kernel_type);
            assert_eq!(KernelType::from_name(kernel_type.name()), Some(kernel_type));
        }
        assert_eq!(KernelType::from_number(200), KernelType::Other);
    }
}

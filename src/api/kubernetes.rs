//! The Kubernetes versions that the operator runs on.

use std::fmt;

use k8s_openapi::apimachinery::pkg::version::Info;

/// The oldest that it is tested on, and starts on.
pub const MINIMUM: KubernetesVersion = KubernetesVersion {
    major: 1,
    minor: 34,
};

/// A minor version. Its order is that of the releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubernetesVersion {
    major: u32,
    minor: u32,
}

impl KubernetesVersion {
    /// The version whose APIs and features an API server serves: the emulated one where it emulates an older one
    /// (`--emulated-version`), else its own. None if it reports no numbers.
    pub fn served(info: &Info) -> Option<Self> {
        let emulated = info
            .emulation_major
            .as_deref()
            .zip(info.emulation_minor.as_deref())
            .and_then(|(major, minor)| Self::parse(major, minor));
        emulated.or_else(|| Self::parse(&info.major, &info.minor))
    }

    /// Some distributions write `35+`.
    fn parse(major: &str, minor: &str) -> Option<Self> {
        Some(Self {
            major: leading_number(major)?,
            minor: leading_number(minor)?,
        })
    }
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.get(..end.unwrap_or(text.len()))?.parse().ok()
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn info(own: [&str; 2], emulated: Option<[&str; 2]>) -> Info {
        Info {
            major: own[0].to_owned(),
            minor: own[1].to_owned(),
            emulation_major: emulated.map(|version| version[0].to_owned()),
            emulation_minor: emulated.map(|version| version[1].to_owned()),
            ..Info::default()
        }
    }

    /// Proves: I-minimum-kubernetes
    #[rstest]
    #[case::the_minimum(["1", "34"], None, Some(("1.34", true)))]
    #[case::one_below(["1", "33"], None, Some(("1.33", false)))]
    #[case::by_number_and_not_by_text(["1", "9"], None, Some(("1.9", false)))]
    #[case::three_digits(["1", "100"], None, Some(("1.100", true)))]
    #[case::another_major(["2", "0"], None, Some(("2.0", true)))]
    #[case::of_a_distribution(["1", "35+"], None, Some(("1.35", true)))]
    #[case::of_a_distribution_below(["1", "33+"], None, Some(("1.33", false)))]
    #[case::emulated(["1", "36"], Some(["1", "33"]), Some(("1.33", false)))]
    #[case::emulated_as_itself(["1", "36"], Some(["1", "36"]), Some(("1.36", true)))]
    #[case::emulated_and_empty(["1", "36"], Some(["", ""]), Some(("1.36", true)))]
    #[case::empty(["", ""], None, None)]
    #[case::no_number(["v1", "x"], None, None)]
    fn the_version_is_compared_by_numbers(
        #[case] own: [&str; 2],
        #[case] emulated: Option<[&str; 2]>,
        #[case] expected: Option<(&str, bool)>,
    ) {
        let version = KubernetesVersion::served(&info(own, emulated));
        let found = version.map(|version| (version.to_string(), version >= MINIMUM));
        assert_eq!(
            found,
            expected.map(|(text, taken)| (text.to_owned(), taken))
        );
    }
}

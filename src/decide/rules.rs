//! The platform's rules: what the Runs of a Workspace may ask for. They are asked before the intent of a submission is
//! written, and a retry that is a new submission is judged anew.

use std::borrow::Cow;

use crate::api::{Reason, RunSpec, WorkspaceSpec};

/// A rule that a Run doesn't keep.
pub(crate) struct Breach<'a> {
    pub(crate) reason: Reason,
    /// What the rule is about, and what the Run has.
    pub(crate) what: &'static str,
    pub(crate) value: Cow<'a, str>,
    /// The Workspace's field, and its entries.
    pub(crate) field: &'static str,
    pub(crate) allowed: &'a [String],
}

impl<'a> Breach<'a> {
    /// The first, if there is one.
    pub(crate) fn of(spec: &'a RunSpec, rules: &'a WorkspaceSpec) -> Option<Self> {
        let is = |value: &str, entry: &str| value == entry;
        let begins = |value: &str, entry: &str| value.starts_with(entry);
        let breach = |reason, (what, value), (field, allowed), fits: fn(&str, &str) -> bool| {
            let (value, allowed): (Cow<'a, str>, &'a Option<Vec<String>>) = (value, allowed);
            let allowed = allowed.as_deref()?;
            let kept = allowed.iter().any(|entry| fits(&value, entry));
            (!kept).then_some(Self {
                reason,
                what,
                value,
                field,
                allowed,
            })
        };
        let provider = ("provider", spec.provider().into());
        let providers = ("allowedProviders", &rules.allowed_providers);
        let region = ("region", spec.region().into());
        let regions = ("allowedRegions", &rules.allowed_regions);
        breach(Reason::ProviderNotAllowed, provider, providers, is)
            .or_else(|| breach(Reason::RegionNotAllowed, region, regions, is))
            .or_else(|| {
                let image = ("image", spec.workload.image().unwrap_or_default());
                let images = ("allowedImages", &rules.allowed_images);
                breach(Reason::ImageNotAllowed, image, images, begins)
            })
    }
}

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
        let is: fn(&str, &str) -> bool = |value, entry| value == entry;
        let begins: fn(&str, &str) -> bool = |value, entry| value.starts_with(entry);
        let provider = ("provider", spec.provider().into());
        let providers = ("allowedProviders", &rules.allowed_providers);
        let region = ("region", spec.region().into());
        let regions = ("allowedRegions", &rules.allowed_regions);
        let image = ("image", spec.workload.image().unwrap_or_default());
        let images = ("allowedImages", &rules.allowed_images);
        let rules = [
            (Reason::ProviderNotAllowed, provider, providers, is),
            (Reason::RegionNotAllowed, region, regions, is),
            (Reason::ImageNotAllowed, image, images, begins),
        ];
        let mut rules = rules.into_iter();
        rules.find_map(|(reason, (what, value), (field, allowed), fits)| {
            let allowed = allowed.as_deref()?;
            let kept = allowed.iter().any(|entry| fits(&value, entry));
            (!kept).then_some(Self {
                reason,
                what,
                value,
                field,
                allowed,
            })
        })
    }
}

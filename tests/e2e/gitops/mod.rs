//! Argo CD and Flux: health, actions, drift and the recipes of `docs/gitops.md`, by the tools' own libraries
//! (`tools/argocd`, `tools/flux`) on the real control plane. The tools' servers themselves are not run.

mod actions;
mod condition_cases;
mod conditions;
mod drift;
mod examples;
mod recipes_argo;
mod recipes_flux;
mod tools;

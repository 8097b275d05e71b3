//! The tasks of `make` that are programs: `cargo xtask generate`, `demo`, `bench`, `book`, `release`, `cluster up` …

mod bench;
mod book;
mod cluster;
mod common;
mod demo;
mod generate;
mod release;
mod service;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use run_operator::util::error_chain;

use common::Outcome;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The tasks of `make` that are programs")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write every generated file of the repository.
    Generate(generate::Options),
    /// Show what run-operator promises, on a real control plane.
    Demo(demo::Options),
    /// Measure the operator beside the limit of its control plane.
    Bench(bench::Options),
    /// Write the documents as a book, and follow its links.
    Book(book::Options),
    /// Make a part of a release.
    #[command(subcommand)]
    Release(release::Part),
    /// A real Kubernetes control plane on loopback ports.
    #[command(subcommand)]
    Cluster(cluster::Action),
}

fn main() -> ExitCode {
    match Cli::parse().task {
        Task::Demo(options) => demo::run(&options),
        Task::Generate(options) => ended("generate", generate::run(&options)),
        Task::Bench(options) => ended("bench", bench::run(&options)),
        Task::Book(options) => ended("book", book::run(&options)),
        Task::Release(part) => ended("release", release::run(&part)),
        Task::Cluster(action) => ended("cluster", cluster::run(&action)),
    }
}

/// Reports a failure on standard error.
fn ended(task: &str, result: Outcome<()>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    eprintln!("{task}: {}", error_chain(&error));
    ExitCode::FAILURE
}

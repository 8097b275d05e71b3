//! A release at a real registry: published, pulled, signed, verified; and refused where it was changed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::{Value, json};
use test_support::registry::Registry;
use test_support::{cargo, root, tools::go_tool};

use crate::dist::{self, Dist, VERSION, image};
use crate::helm::{self, documents, done};

/// The release of the tests that don't change it.
pub(crate) static RELEASE: LazyLock<Dist> = LazyLock::new(Dist::new);

#[track_caller]
pub(crate) fn fails(output: &Output, words: &str) {
    assert!(!output.status.success());
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.contains(words), "{words:?} is not in: {why}");
}

/// The digest of an image of the release.
pub(crate) fn digest(dist: &Dist, name: &str) -> String {
    let images = dist.read("images.txt");
    let start = format!("{}/{name}@", dist.registry.address);
    let found = images.lines().find_map(|line| line.strip_prefix(&start));
    found.unwrap().to_owned()
}

/// Proves: I-release
#[test]
fn a_published_version_is_pulled_and_never_overwritten() {
    let dist = &*RELEASE;
    let first = done(&dist.script("publish", &[]));
    assert_eq!(done(&dist.script("publish", &[])), first);
    let operator = digest(dist, "run-operator");
    let found = done(&dist.resolve(&format!("run-operator@{operator}")));
    assert_eq!(found.trim(), operator);

    // The chart that Helm pulls is the release's file, and has the image by its digest.
    let pulled = tempfile::TempDir::new().unwrap();
    let chart = format!("oci://{}/charts/run-operator", dist.registry.address);
    let mut pull = helm::command();
    pull.args(["pull", &chart, "--plain-http", "--version", VERSION]);
    pull.arg("--destination").arg(pulled.path());
    done(&pull.output().unwrap());
    let name = format!("run-operator-{VERSION}.tgz");
    let archive = pulled.path().join(&name);
    assert!(fs::read(&archive).unwrap() == fs::read(dist.path(&name)).unwrap());
    // Values of the tests would set a registry.
    let mut template = helm::command();
    template.args(["template", "run-operator"]).arg(&archive);
    template.args(["--set", "service.baseURL=https://runs.example.com/api/v1"]);
    let objects = documents(&done(&template.output().unwrap()));
    let reference = format!("{}/run-operator@{operator}", dist.registry.address);
    assert_eq!(helm::container(&objects)["image"], reference);

    let other = dist::make(&dist.registry.address, "4567def");
    let refused = dist::script("publish", other.path(), &dist.registry.address, &[]);
    fails(&refused, "a published version is not overwritten");
    let found = done(&dist.resolve(&format!("run-operator:{VERSION}")));
    assert_eq!(found.trim(), operator);
    let chart = other.path().join(&name);
    let reference = format!("{}/charts/run-operator:{VERSION}", dist.registry.address);
    let refused = image(&["holds", &reference, chart.to_str().unwrap()]);
    fails(&refused, "a published version is not overwritten");

    let elsewhere = Registry::start().unwrap();
    let refused = dist::script("publish", dist.folder.path(), &elsewhere.address, &[]);
    fails(&refused, "the release was made for");
}

/// Somebody's pair of keys of cosign, without a password: the files of the private and of the public one.
pub(crate) fn keys(dist: &Dist, who: &str) -> (String, String) {
    let folder = dist.path("homes").join(who);
    fs::create_dir_all(&folder).unwrap();
    let mut cosign = Command::new(go_tool("cosign").unwrap());
    cosign.arg("generate-key-pair").current_dir(&folder);
    done(&cosign.env("COSIGN_PASSWORD", "").output().unwrap());
    let path = |file: &str| folder.join(file).display().to_string();
    (path("cosign.key"), path("cosign.pub"))
}

/// Proves: I-release
#[test]
fn what_was_signed_is_verified_and_what_was_changed_is_refused() {
    let dist = Dist::new();
    let (key, public) = keys(&dist, "ours");
    let (_, another) = keys(&dist, "another");
    let verify = |key: &str| dist.script("verify", &[("PUBLIC_KEY", key)]);
    done(&dist.script("publish", &[]));
    fails(&verify(&public), "is NOT verified");
    done(&dist.script("sign", &[("KEY", &key), ("COSIGN_PASSWORD", "")]));
    let verified = done(&verify(&public));
    let charts = "/charts/run-operator@";
    for name in [
        "SHA256SUMS",
        "/run-operator@",
        "/kubectl-runop@",
        "/reference-service@",
        charts,
    ] {
        assert!(verified.contains(name), "{name} is not in: {verified}");
    }
    fails(&verify(&another), "is NOT verified");

    // A file, and with its checksum.
    let (file, sums) = (dist.path("install.yaml"), dist.path("SHA256SUMS"));
    let (text, summed) = (dist.read("install.yaml"), dist.read("SHA256SUMS"));
    fs::write(&file, text.clone() + "\n").unwrap();
    fails(&verify(&public), "install.yaml");
    fs::write(&file, text).unwrap();
    fs::write(&sums, summed.replace("install.yaml", "else.yaml")).unwrap();
    fails(&verify(&public), "SHA256SUMS is NOT verified");
    fs::write(&sums, summed).unwrap();
    done(&verify(&public));

    // Another image under the version's tag, as whoever can write to the registry may put it there.
    let other = tempfile::TempDir::new().unwrap();
    let layout = dist::platform(other.path(), "4567def").join("run-operator-image");
    let index = other.path().join("index").display().to_string();
    let layout = layout.to_str().unwrap();
    done(&image(&["index", "--out", &index, layout]));
    let tag = format!("{}/run-operator:other", dist.registry.address);
    done(&image(&["push", &index, &tag]));
    let other = "run-operator/manifests/other";
    let manifest = exchange(&dist.registry, "GET", other, "");
    let version = format!("run-operator/manifests/{VERSION}");
    exchange(&dist.registry, "PUT", &version, &manifest);
    fails(&verify(&public), "and the release has");
    // By its digest it is there, and not signed.
    let found = done(&dist.resolve("run-operator:other"));
    let unsigned = format!("{}/run-operator@{}", dist.registry.address, found.trim());
    let mut cosign = Command::new(go_tool("cosign").unwrap());
    cosign.args(["verify", "--key", &public]);
    cosign.args(["--insecure-ignore-tlog=true", &unsigned]);
    fails(&cosign.output().unwrap(), "no signatures found");
}

/// One request about an index's manifest, and the body of its answer.
fn exchange(registry: &Registry, verb: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(&registry.address).unwrap();
    let (host, length) = (&registry.address, body.len());
    let request = format!(
        "{verb} /v2/{path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: {length}\r\n\
         Content-Type: application/vnd.oci.image.index.v1+json\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split_whitespace().nth(1).unwrap_or_default();
    assert!(status.starts_with('2'), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Proves: I-release
#[test]
fn checksums_and_provenance_are_of_every_file_and_image() {
    let dist = &*RELEASE;
    let entries = fs::read_dir(dist.folder.path())
        .unwrap()
        .map(Result::unwrap);
    let files = entries.filter(|entry| entry.path().is_file());
    let files = files.map(|entry| entry.file_name().into_string().unwrap());
    let mut files: BTreeSet<String> = files.collect();
    files.remove("SHA256SUMS");
    let sums = dist.read("SHA256SUMS");
    let sums: Vec<(&str, &str)> = sums.lines().map(|l| l.split_once("  ").unwrap()).collect();
    let named: BTreeSet<_> = sums.iter().map(|(_, name)| (*name).to_owned()).collect();
    assert_eq!(named, files);

    let statement: Value = serde_json::from_str(&dist.read("provenance.intoto.json")).unwrap();
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    let subjects = statement["subject"].as_array().unwrap();
    let images = ["run-operator", "kubectl-runop", "reference-service"].map(|name| {
        let sum = digest(dist, name).trim_start_matches("sha256:").to_owned();
        (sum, format!("{}/{name}", dist.registry.address))
    });
    let files = sums
        .iter()
        .filter(|(_, name)| *name != "provenance.intoto.json");
    let files = files.map(|(sum, name)| ((*sum).to_owned(), (*name).to_owned()));
    let all: Vec<(String, String)> = files.chain(images).collect();
    for (sum, name) in &all {
        let subject = json!({"name": name, "digest": {"sha256": sum}});
        assert!(subjects.contains(&subject), "{name}");
    }
    assert_eq!(subjects.len(), all.len());
    let commit = &statement["predicate"]["buildDefinition"]["resolvedDependencies"][0];
    assert_eq!(commit["digest"]["gitCommit"], "0123abc");

    // The same again, from the same.
    let again = dist::make(&dist.registry.address, "0123abc");
    let same = fs::read_to_string(again.path().join("SHA256SUMS"));
    assert_eq!(same.unwrap(), dist.read("SHA256SUMS"));
}

/// Proves: I-release
#[test]
fn the_released_chart_and_manifests_have_images_by_digest() {
    let dist = &*RELEASE;
    let archive = dist.path(&format!("run-operator-{VERSION}.tgz"));
    let mut show = helm::command();
    let shown = done(&show.args(["show", "chart"]).arg(&archive).output().unwrap());
    let chart: Value = serde_saphyr::from_str(&shown).unwrap();
    let sources = json!(["https://example.com/run-operator"]);
    assert_eq!(chart["home"], "https://example.com");
    assert_eq!(chart["sources"], sources);
    assert_eq!(chart["icon"], "https://example.com/icon.svg");
    let maintainers = json!([{"name": "A Team", "email": "team@example.com"}, {"name": "acme"}]);
    assert_eq!(chart["maintainers"], maintainers);
    let mut show = helm::command();
    let readme = done(
        &show
            .args(["show", "readme"])
            .arg(&archive)
            .output()
            .unwrap(),
    );
    let link = format!("](https://example.com/run-operator/blob/v{VERSION}/docs/install.md");
    assert!(
        readme.contains(&link) && !readme.contains("](."),
        "{readme}"
    );
    let chart_there = format!("oci://{}/charts/run-operator", dist.registry.address);
    let install = format!("helm install run-operator {chart_there} --version {VERSION} ");
    assert!(readme.contains(&install), "{readme}");
    assert!(!readme.contains("--set image.registry="), "{readme}");
    let told = |name: &str| -> Value {
        let text = chart["annotations"][format!("artifacthub.io/{name}")].as_str();
        serde_saphyr::from_str(text.unwrap()).unwrap()
    };
    let [operator, service] = ["run-operator", "reference-service"]
        .map(|name| format!("{}/{name}@{}", dist.registry.address, digest(dist, name)));
    assert_eq!(told("images")[0]["image"], operator);
    let kinds = "added changed deprecated removed fixed security";
    let changes = told("changes");
    let changes = changes.as_array().unwrap();
    assert!(!changes.is_empty());
    for change in changes {
        let kind = change["kind"].as_str().unwrap();
        assert!(kinds.split(' ').any(|known| known == kind), "{kind}");
    }

    // The alerts lead to the documents of this version.
    let least = "service.baseURL=https://a.example/v1,metrics.prometheusRule.enabled=true";
    let archive = archive.display().to_string();
    let of_archive = ["template", "run-operator", &archive, "--set", least];
    let rendered = done(&helm::command().args(of_archive).output().unwrap());
    let page = format!("https://example.com/run-operator/blob/v{VERSION}/docs/alerts.md#");
    assert!(rendered.contains(&page), "{page}");

    // Only the image's reference is another one.
    let built = format!("registry.example.com/run-operator:{VERSION}");
    let plain = fs::read_to_string(root().join("deploy/install.yaml")).unwrap();
    assert_eq!(dist.read("install.yaml"), plain.replace(&built, &operator));
    let quickstart = documents(&dist.read("quickstart.yaml"));
    let deployments = helm::of_kind(&quickstart, "Deployment").into_iter();
    let images = deployments.map(|d| &d["spec"]["template"]["spec"]["containers"][0]["image"]);
    assert!(images.eq(&[operator, service].map(Value::from)));
}

/// Others' crates in a program, each as the licences begin its line.
fn crates(program: &str) -> Vec<String> {
    let mut tree = cargo();
    tree.args(["tree", "--locked", "--package", program]);
    tree.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let tree = done(&tree.output().unwrap());
    // Behind the version ours have their folder.
    let foreign = tree.lines().filter(|line| !line.contains(" (/"));
    let named = foreign.filter_map(|line| line.split_once(" v"));
    let line = |(name, rest): (&str, &str)| {
        let version = rest.split(' ').next().unwrap_or_default();
        format!("\n{name} {version}: ")
    };
    named.map(line).collect()
}

/// Proves: I-release
#[test]
fn everything_in_the_images_has_its_licence_in_one_file() {
    let licences = RELEASE.read("THIRD-PARTY-LICENSES");
    for name in [
        "\nring ",
        "\nschannel ",
        "\ntikv-jemalloc-sys ",
        "jemalloc/COPYING",
        "\nThe Rust Standard Library is dual-licensed",
        "\nglibc: GNU Lesser General Public License 2.1",
        "\nlibgcc: GCC Runtime Library Exception",
        "\nMozilla Public License Version 2.0",
    ] {
        assert!(licences.contains(name), "{name:?}");
    }
    for program in ["run-operator", "kubectl-runop", "reference-service"] {
        let crates = crates(program);
        assert!(crates.len() > 30, "{program}: {crates:?}");
        let missing: Vec<_> = crates.iter().filter(|c| !licences.contains(*c)).collect();
        assert!(missing.is_empty(), "{program}: {missing:?}");
    }
    assert!(!licences.contains("\nproptest "), "only tests have it");
}

/// Proves: I-release
#[test]
fn a_release_is_made_of_a_clean_tag_of_its_version_only() {
    if !root().join(".git").exists() {
        // An unpacked archive can be no release.
        return;
    }
    let clone = tempfile::TempDir::new().unwrap();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=Test", "-c", "user.email=test@example.com"]);
        git.args(["-c", "commit.gpgSign=false"]).args(args);
        done(&git.current_dir(clone.path()).output().unwrap())
    };
    let here = root().to_str().unwrap();
    git(&["clone", "--quiet", "--shared", here, "."]);
    // As it is here, not as it was when it was last committed.
    let script = clone.path().join(".ci/release-check");
    fs::copy(root().join(".ci/release-check"), &script).unwrap();
    let commit = ["commit", "--quiet", "--all", "--allow-empty", "-m", "test"];
    git(&commit);
    let check = |version: &str| {
        let mut check = Command::new(&script);
        check.arg(version).env_remove("DRY_RUN").output().unwrap()
    };
    let dry = || {
        let mut check = Command::new(&script);
        check.arg(VERSION).env("DRY_RUN", "1").output().unwrap()
    };
    fails(&check("latest"), "is not a version");
    fails(&check("99.0.0"), "not 99.0.0");
    fails(&check(VERSION), "does not carry the tag");
    git(&["tag", "--force", &format!("v{VERSION}")]);
    done(&check(VERSION));
    let more = clone.path().join("more");
    fs::write(&more, "").unwrap();
    fails(&check(VERSION), "not committed");
    fails(&dry(), "not committed");
    fs::remove_file(more).unwrap();
    git(&commit);
    fails(&check(VERSION), "does not carry the tag");
    done(&dry());
}

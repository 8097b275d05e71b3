//! A status that somebody else wrote. What a forged intent leads to is proved in `policy`.

use serde_json::json;

use crate::support::{World, eventually};

/// The paths of all requests for runs, as they stood in the request line, but for those of the real one.
async fn run_paths(world: &World) -> Vec<String> {
    let requests = world.service.get("requests").await;
    let requests = requests.as_array().unwrap().iter();
    let paths = requests.map(|request| {
        assert_ne!(request["operation"], "unknown", "{request}");
        request["path"].as_str().unwrap().to_owned()
    });
    let forged = |path: &String| {
        path.starts_with("/api/v1/runs/") && !path.starts_with("/api/v1/runs/model")
    };
    paths.filter(forged).collect()
}

async fn is_asked_for(world: &World, path: &str) {
    eventually(&format!("{path} is asked for"), async || {
        let paths = run_paths(world).await;
        let asked = paths.iter().any(|asked| asked == path);
        asked.then_some(()).ok_or(format!("{paths:?}"))
    })
    .await;
}

/// True if the path is that of one run, its events or its cancellation.
fn is_of_one_run(path: &str) -> bool {
    let rest = path.strip_prefix("/api/v1/runs/").unwrap();
    let rest = rest.strip_suffix("/events").unwrap_or(rest);
    let segment = rest.strip_suffix(":cancel").unwrap_or(rest);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~%".contains(&b);
    segment.bytes().all(is_plain) && ![".", ".."].contains(&segment)
}

/// Proves: X-forged
#[tokio::test]
async fn a_forged_run_id_never_leads_out_of_the_path_of_one_run() {
    let world = World::new().await;
    let model = world.running("model").await;
    let long = "x".repeat(512);
    let control = "..%2F..%2F_control%2Ftokens";
    let ids = [
        ("up", "../version", "..%2Fversion"),
        ("up-twice", "../../_control/tokens", control),
        ("encoded", "..%2f..%2f_control", "..%252f..%252f_control"),
        ("cancel", "victim:cancel", "victim%3Acancel"),
        ("events", "victim/events", "victim%2Fevents"),
        ("query", "victim?x=1", "victim%3Fx%3D1"),
        ("fragment", "victim#x", "victim%23x"),
        ("backslash", "..\\version", "..%5Cversion"),
        ("slashes", "//127.0.0.1/x", "%2F%2F127.0.0.1%2Fx"),
        ("space", "victim HTTP/1.1", "victim%20HTTP%2F1.1"),
        ("long", &long, &long),
    ];
    // Beside the Workspace that a submitted Run of the same namespace shows.
    let workspace = &model.status.as_ref().unwrap().workspace;
    for (name, id, _) in ids {
        world.create_run(name, json!({"suspend": true})).await;
        world.not_ready(name, "Suspended").await;
        let forged = json!({"runID": id, "workspace": workspace});
        world.patch_status(name, forged).await;
    }
    for (name, _, wanted) in ids {
        is_asked_for(&world, &format!("/api/v1/runs/{wanted}")).await;
        // What was forged is what is asked for, and what a deletion cancels.
        world.delete_run(name).await;
    }
    for (name, _, wanted) in ids {
        is_asked_for(&world, &format!("/api/v1/runs/{wanted}:cancel")).await;
        // The service has no such run, and so the object is released.
        world.gone(name).await;
    }
    for path in run_paths(&world).await {
        assert!(is_of_one_run(&path), "{path}");
    }
}

//! Which proxy leads to an API server, as kubectl decides it: `proxy-url` of the kubeconfig's cluster, whatever `NO_PROXY`
//! says; else that of the environment, but to no address of `NO_PROXY` and to none of this machine. (kube compares
//! `NO_PROXY` with the proxy's own address, and applies it to `proxy-url`.)

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use kube::config::{KubeConfigOptions, Kubeconfig};

const PROXY_URL: &str = "proxy-url of the kubeconfig's cluster";
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// The address may have a password, so it is not shown.
#[derive(Debug, thiserror::Error)]
#[error(
    "failed to use the proxy that {0} names; an address is needed, such as http://proxy.example.com:3128"
)]
pub struct UnusableProxy(&'static str);

/// The `proxy-url` of the cluster that is used.
pub(super) fn of_cluster<'a>(
    kubeconfig: &'a Kubeconfig,
    options: &'a KubeConfigOptions,
) -> Option<&'a str> {
    let context = options.context.as_ref();
    let context = context.or(kubeconfig.current_context.as_ref());
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|named| Some(&named.name) == context);
    let context = context.and_then(|named| named.context.as_ref());
    let cluster = options.cluster.as_ref().or(context.map(|c| &c.cluster))?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|named| named.name == *cluster)?;
    let proxy = cluster.cluster.as_ref()?.proxy_url.as_deref();
    proxy.filter(|url| !url.is_empty())
}

pub(super) fn to(
    address: &Uri,
    of_cluster: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Intercept>, UnusableProxy> {
    let given = |[upper, lower]: [&'static str; 2]| {
        let value = |name| variable(name).filter(|value| !value.is_empty());
        value(upper).or_else(|| value(lower))
    };
    let (proxy, source, exempt) = if let Some(proxy) = of_cluster {
        (proxy.to_owned(), PROXY_URL, String::new())
    } else {
        let names = match address.scheme_str() {
            Some("http") => ["HTTP_PROXY", "http_proxy"],
            _ => ["HTTPS_PROXY", "https_proxy"],
        };
        let Some(proxy) = given(names) else {
            return Ok(None);
        };
        let exempt = given(["NO_PROXY", "no_proxy"]).unwrap_or_default();
        (proxy, names[0], format!("{LOOPBACK},{exempt}"))
    };
    if covers(&exempt, address) {
        return Ok(None);
    }
    let usable = |found: &Intercept| {
        let scheme = found.uri().scheme_str();
        matches!(scheme, Some("http" | "https" | "socks5" | "socks5h"))
    };
    let found = Matcher::builder().all(proxy).build().intercept(address);
    let found = found.filter(usable).ok_or(UnusableProxy(source))?;
    Ok(Some(found))
}

/// Where hyper connects to. Without a port it would take that of http.
pub(super) fn socks_address(proxy: &Uri) -> Uri {
    let host = proxy.host().filter(|_| proxy.port().is_none());
    let usual = host.and_then(|host| format!("socks5://{host}:1080").parse().ok());
    usual.unwrap_or_else(|| proxy.clone())
}

fn covers(exempt: &str, address: &Uri) -> bool {
    let entries = exempt.split(',').map(|entry| plain(entry, address));
    let entries: Vec<&str> = entries.collect();
    let others = Matcher::builder().all("http://any").no(entries.join(","));
    // For hyper's matcher a star is every name and no address.
    entries.contains(&"*") || others.build().intercept(address).is_none()
}

/// An entry of `NO_PROXY` as hyper's matcher reads it: `*.example.com` without its star, and `HOST:PORT` without the
/// port, if that is the API server's.
fn plain<'a>(entry: &'a str, address: &Uri) -> &'a str {
    let entry = entry.trim();
    let tail = entry.strip_prefix('*');
    let entry = tail.filter(|tail| !tail.is_empty()).unwrap_or(entry);
    let port = address.port_u16().unwrap_or(443).to_string();
    match entry.rsplit_once(':') {
        Some((host, of)) if of == port && !host.contains(':') => host,
        _ => entry,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const PROXY: &str = "http://me:secret@proxy.example:3128";

    fn with<'a>(variables: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    /// Proves: P-api-proxy
    #[rstest]
    #[case::of_another("https://api.example:6443", "other.example", true)]
    #[case::of_the_proxy("https://api.example:6443", "proxy.example", true)]
    #[case::of_another_port("https://api.example:6443", "api.example:443", true)]
    #[case::of_the_api_server("https://api.example:6443", "api.example", false)]
    #[case::of_its_port("https://api.example:6443", "a,,api.example:6443", false)]
    #[case::of_its_domain("https://api.example:6443", ".example", false)]
    #[case::of_its_subdomains("https://api.example:6443", "*.example", false)]
    #[case::of_every_name("https://api.example:6443", "*", false)]
    #[case::of_every_address("https://10.96.0.1", " *", false)]
    #[case::of_its_network("https://10.96.0.1", "localhost, 10.96.0.0/12,", false)]
    #[case::of_nothing_on_this_machine("https://127.0.0.1:6443", "", false)]
    #[case::of_nothing_here_by_name("https://localhost:6443", "", false)]
    #[case::of_nothing_here_in_ipv6("https://[::1]:6443", "", false)]
    fn no_proxy_is_about_the_api_server(
        #[case] address: &str,
        #[case] exempt: &str,
        #[case] proxied: bool,
    ) {
        let address: Uri = address.parse().unwrap();
        let variables = [("https_proxy", PROXY), ("NO_PROXY", exempt)];
        let found = to(&address, None, with(&variables)).unwrap();
        assert_eq!(found.is_some(), proxied);
        let of_cluster = to(&address, Some("socks5://own.example"), with(&variables));
        let of_cluster = of_cluster.unwrap().unwrap();
        assert_eq!(of_cluster.uri().host(), Some("own.example"));
    }

    /// Proves: P-api-proxy
    #[test]
    fn the_environments_proxy_is_that_for_the_api_servers_scheme() {
        let variables = [("HTTPS_PROXY", "one.example:1"), ("HTTP_PROXY", PROXY)];
        let found = |address| to(&Uri::from_static(address), None, with(&variables)).unwrap();
        let https = found("https://api.example").unwrap();
        assert_eq!(https.uri().to_string(), "http://one.example:1/");
        assert!(https.basic_auth().is_none());
        let http = found("http://api.example").unwrap();
        assert_eq!(http.uri().to_string(), "http://proxy.example:3128/");
        assert!(http.basic_auth().is_some());
    }

    /// Proves: P-api-proxy
    #[rstest]
    #[case("socks5://proxy.example", "socks5://proxy.example:1080/")]
    #[case("socks5h://me:secret@[2001:db8::1]", "socks5://[2001:db8::1]:1080/")]
    #[case("socks5://proxy.example:1081", "socks5://proxy.example:1081/")]
    fn a_socks_proxy_without_a_port_has_that_of_kubectl(#[case] proxy: &str, #[case] at: &str) {
        let address = Uri::from_static("https://api.example");
        let found = to(&address, Some(proxy), with(&[])).unwrap().unwrap();
        assert_eq!(socks_address(found.uri()).to_string(), at);
    }

    /// Proves: P-api-proxy
    #[test]
    fn a_proxy_that_can_t_be_used_is_named_without_its_password() {
        let address = Uri::from_static("https://api.example");
        let bad = "ftp://me:secret@proxy.example";
        let told = |of_cluster, variables: &[(&str, &str)]| {
            let error = to(&address, of_cluster, with(variables)).unwrap_err();
            let told = error.to_string();
            assert!(!told.contains("secret"), "{told}");
            told
        };
        assert!(told(Some(bad), &[]).contains("proxy-url"));
        assert!(told(None, &[("https_proxy", bad)]).contains("HTTPS_PROXY"));
    }

    /// Proves: P-api-proxy
    #[test]
    fn the_clusters_own_proxy_is_that_of_the_context() {
        let kubeconfig = r"
            current-context: two
            clusters:
              - {name: a, cluster: {server: 'https://a', proxy-url: 'http://pa'}}
              - {name: b, cluster: {server: 'https://b', proxy-url: 'socks5://pb'}}
            contexts:
              - {name: one, context: {cluster: a}}
              - {name: two, context: {cluster: b}}";
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
        let mut options = KubeConfigOptions::default();
        assert_eq!(of_cluster(&kubeconfig, &options), Some("socks5://pb"));
        options.context = Some("one".to_owned());
        assert_eq!(of_cluster(&kubeconfig, &options), Some("http://pa"));
        options.cluster = Some("b".to_owned());
        assert_eq!(of_cluster(&kubeconfig, &options), Some("socks5://pb"));
    }
}

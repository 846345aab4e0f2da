//! Who sends: an IP address, or a pod by its name.
//!
//! Addresses of pods are not kept; they were looked up for the question. In: the name and what was found. Out: the one address that the packet
//! has, or one line that says what to do.

use std::net::IpAddr;

use switchyard_model::Family;
use switchyard_source::lookup::Pods;

use super::Refusal;
use super::dialled::{is_name, list};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    /// An address.
    Address(IpAddr),
    /// A pod.
    Pod {
        /// Absent if there is only one pod of the name.
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
}

/// A pod that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundPod {
    /// Namespace and name.
    pub(super) name: String,
    addresses: Vec<IpAddr>,
}

impl Sender {
    pub(super) fn read(text: &str) -> Result<Self, Refusal> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        // What has only digits and dots was meant to be an address.
        let is_number = name.chars().all(|c| c.is_ascii_digit() || c == '.');
        if is_number || ![Some(name), namespace].into_iter().flatten().all(is_name) {
            let text: String = text.chars().take(80).collect();
            let forms = "10.244.1.7, fd00::7, web-0 or shop/web-0";
            return Err((400, format!("from must be an IP address or a pod, as in {forms}, not {text:?}")));
        }
        Ok(Self::Pod { namespace: namespace.map(str::to_owned), name: name.to_owned() })
    }

    /// The pod that is meant, of those that were found.
    pub(super) fn find(namespace: Option<&str>, name: &str, pods: &Pods) -> Result<FoundPod, Refusal> {
        let mut all = pods.iter();
        match (all.next(), all.next()) {
            (None, _) => {
                let shown =
                    namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
                let known = "only pods that are endpoints of a Service are known by name";
                Err((404, format!("no pod {shown} is known: {known}; give its IP address")))
            }
            (Some((namespace, addresses)), None) => {
                let addresses = addresses.iter().copied().collect();
                Ok(FoundPod { name: format!("{namespace}/{name}"), addresses })
            }
            (Some(_), Some(_)) => {
                let names = pods.keys().map(|namespace| format!("{namespace}/{name}")).collect();
                Err((
                    400,
                    format!("several pods have the name {name}: {}; write NAMESPACE/NAME", list(names)),
                ))
            }
        }
    }
}

impl FoundPod {
    /// The pod's address in the first family in which what it dials is there, and what that is.
    pub(super) fn dial<T>(
        &self,
        resolve: impl Fn(Family) -> Result<(IpAddr, T), Refusal>,
    ) -> Result<(IpAddr, T), Refusal> {
        let mut trouble = None;
        for family in Family::ALL {
            let mut own = self.addresses.iter().copied().filter(|address| Family::of(*address) == family);
            let Some(address) = own.next() else { continue };
            match resolve(family) {
                Ok((to, _)) if Family::of(to) != family => {}
                Ok(_) if own.next().is_some() => {
                    let all = self.shown();
                    return Err((
                        400,
                        format!("pod {} has several addresses: {all}; give one of them", self.name),
                    ));
                }
                Ok((_, found)) => return Ok((address, found)),
                Err(refusal) => trouble = trouble.or(Some(refusal)),
            }
        }
        let families = || {
            let all = self.shown();
            (400, format!("from and to are of different IP families: pod {} has only {all}", self.name))
        };
        Err(trouble.unwrap_or_else(families))
    }

    fn shown(&self) -> String {
        list(self.addresses.iter().map(ToString::to_string).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(all: &[(&str, &[&str])]) -> Pods {
        let addresses = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        all.iter().map(|(namespace, list)| ((*namespace).to_owned(), addresses(list))).collect()
    }

    /// What a pod dials, if it is there in these families.
    fn dial(found: &[(&str, &[&str])], to: &[&str]) -> Result<String, String> {
        let pod = Sender::find(None, "web-0", &pods(found)).map_err(|(_, text)| text)?;
        let resolve = |family| {
            let to = to.iter().map(|text| text.parse().unwrap()).find(|to| Family::of(*to) == family);
            to.map(|to: IpAddr| (to, to)).ok_or((404, "no Service web".to_owned()))
        };
        pod.dial(resolve).map(|(from, to)| format!("{} {from} {to}", pod.name)).map_err(|(_, text)| text)
    }

    #[test]
    fn the_address_is_of_the_family_that_is_dialled() {
        const DUAL: &[(&str, &[&str])] = &[("shop", &["10.1.0.1", "fd00::1"])];
        assert_eq!(dial(DUAL, &["10.96.0.1", "fd96::1"]), Ok("shop/web-0 10.1.0.1 10.96.0.1".to_owned()));
        assert_eq!(dial(DUAL, &["fd96::1"]), Ok("shop/web-0 fd00::1 fd96::1".to_owned()));
        assert_eq!(dial(DUAL, &[]), Err("no Service web".to_owned()));
        // An address that is dialled is there in any case.
        let pod = Sender::find(None, "web-0", &pods(DUAL)).unwrap();
        let to: IpAddr = "fd96::1".parse().unwrap();
        assert_eq!(pod.dial(|_| Ok((to, ()))), Ok(("fd00::1".parse().unwrap(), ())));
        let single = Sender::find(None, "web-0", &pods(&[("shop", &["10.1.0.1"])])).unwrap();
        let (_, said) = single.dial(|_| Ok((to, ()))).unwrap_err();
        assert_eq!(said, "from and to are of different IP families: pod shop/web-0 has only 10.1.0.1");
    }

    #[test]
    fn what_is_unknown_or_ambiguous_is_said_in_one_line_with_what_to_do() {
        let unknown = "no pod web-0 is known: only pods that are endpoints of a Service are known by name; give its IP address";
        assert_eq!(dial(&[], &[]), Err(unknown.to_owned()));
        let both = dial(&[("shop", &["10.1.0.1"]), ("test", &["10.1.0.2"])], &[]);
        let several = "several pods have the name web-0: shop/web-0, test/web-0; write NAMESPACE/NAME";
        assert_eq!(both, Err(several.to_owned()));
        let twice = dial(&[("shop", &["10.1.0.1", "10.1.0.2"])], &["10.96.0.1"]);
        let several = "pod shop/web-0 has several addresses: 10.1.0.1, 10.1.0.2; give one of them";
        assert_eq!(twice, Err(several.to_owned()));
        for wrong in
            ["10.1.0", "10.1.0.1/24", "a/b/c", "/web", "we\nb", "\u{202e}web", "web:80", &"x".repeat(300)]
        {
            let (_, said) = Sender::read(wrong).unwrap_err();
            assert!(said.starts_with("from must be ") && said.lines().count() == 1, "{wrong:?}: {said}");
        }
    }
}

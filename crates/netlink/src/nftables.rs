//! Tables of nf_tables: enough to remove one that another program left.

use nix::errno::Errno;

use crate::message::Message;
use crate::socket::{Protocol, Socket};
use crate::{Family, NetlinkError};

const SUBSYSTEM: u8 = 10;
const NFT_MSG_DELTABLE: u8 = 2;
const NFTA_TABLE_NAME: u16 = 1;

/// What became of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It was there and is gone, with everything in it.
    Yes,
    /// It was not there.
    Absent,
}

/// Removes a table by family and name. Nothing else is touched.
pub fn delete_table(family: Family, name: &str) -> Result<Removed, NetlinkError> {
    let mut message = Message::netfilter(SUBSYSTEM, NFT_MSG_DELTABLE, 0, family.number());
    message.put_text(NFTA_TABLE_NAME, name);
    match Socket::open(Protocol::Netfilter)?.transaction("delete a table", SUBSYSTEM, message) {
        Ok(()) => Ok(Removed::Yes),
        // A kernel without nf_tables has no tables either.
        Err(error) if matches!(error.errno(), Some(Errno::ENOENT | Errno::EINVAL | Errno::EOPNOTSUPP)) => {
            Ok(Removed::Absent)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::testing::namespace_or_skip;

    #[test]
    fn only_the_named_table_goes() {
        let Some(namespace) = namespace_or_skip() else { return };
        namespace
            .run(|| {
                let nft = |args: &str| {
                    let output = Command::new("nft").args(args.split(' ')).output().unwrap();
                    assert!(output.status.success(), "nft {args}: {output:?}");
                    String::from_utf8(output.stdout).unwrap()
                };
                nft("add table ip kube-proxy");
                nft("add chain ip kube-proxy services");
                nft("add table ip6 kube-proxy");
                nft("add table ip other");
                assert_eq!(delete_table(Family::V4, "kube-proxy").unwrap(), Removed::Yes);
                assert_eq!(delete_table(Family::V4, "kube-proxy").unwrap(), Removed::Absent);
                assert_eq!(nft("list tables"), "table ip6 kube-proxy\ntable ip other\n");
            })
            .unwrap();
    }
}

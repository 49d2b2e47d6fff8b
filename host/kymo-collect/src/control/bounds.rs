// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that programs can make the collector use: bounded per user and in total [spec/session.md 8].
//!
//! A user's programs have their descriptions, their events and what waits to be sent to them. Where that is too much,
//! the user's program that takes most of it is sent away, until it is not; where all users together take too much, one
//! of the user with most.

use kymo_abi::wire::ByeReason;

use super::state::Control;
use super::usage::Limits;
use crate::channel::Channel;
use crate::peer::Peer;

impl Control {
    /// Users that have programs, and the bytes that these take.
    #[cfg(test)]
    pub(crate) fn bytes_by_user(&self) -> Vec<(u32, usize)> {
        self.bounds.users().into_iter().map(|uid| (uid, self.bytes_of(uid))).collect()
    }

    fn bytes_of(&self, uid: u32) -> usize {
        self.bounds.bytes_of(uid) + self.texts.bytes(uid)
    }

    /// A connection has ended: all that was kept for it goes.
    pub(super) fn release(&mut self, peer: &mut Peer) {
        self.let_go(peer);
        self.bounds.gone(peer);
    }

    /// The descriptions of a program go.
    pub(super) fn let_go(&mut self, peer: &mut Peer) {
        let uid = peer.id.uid;
        let events = std::mem::take(&mut peer.events).into_values().map(|known| known.text);
        for text in events.chain(std::mem::take(&mut peer.enums).into_values()) {
            self.texts.give_back(uid, text);
        }
        (peer.undecided, peer.desc_bytes) = (Vec::new(), 0);
    }

    /// The program that spoke, or was spoken to, takes more than before, perhaps: who takes too much goes.
    pub(super) fn keep_bounds(&mut self, token: u64) {
        let Some(peer) = self.peers.get_mut(&token) else { return };
        let uid = peer.id.uid;
        self.bounds.update(peer);
        let Limits { user_bytes, all_bytes } = self.limits;
        while self.bytes_of(uid) > user_bytes {
            let limit = user_bytes >> 20;
            if !self.send_largest_away(
                uid,
                &format!("the programs of user {uid} take more than {limit} MiB of the collector's memory"),
            ) {
                break;
            }
        }
        let users: Vec<u32> = self.bounds.users();
        while users.iter().map(|uid| self.bytes_of(*uid)).sum::<usize>() > all_bytes {
            let limit = all_bytes >> 20;
            let Some(most) = users.iter().copied().max_by_key(|uid| self.bytes_of(*uid)) else { break };
            if !self.send_largest_away(
                most,
                &format!("all programs take more than {limit} MiB of the collector's memory, user {most} most"),
            ) {
                break;
            }
        }
    }

    /// Sends the program of a user away whose end gives most memory back. False where there is none.
    fn send_largest_away(&mut self, uid: u32, why: &str) -> bool {
        let of_user = self.peers.iter().filter(|(_, peer)| peer.id.uid == uid);
        let Some((token, _)) = of_user.max_by_key(|(_, peer)| peer.bytes_alone()) else { return false };
        let token = *token;
        let Some(mut peer) = self.peers.remove(&token) else { return false };
        let text = format!("was sent away: {why}, and this one takes most of it");
        self.send_away(&mut peer, ByeReason::Protocol, text, "run fewer programs at a time, or with fewer events");
        let _ = peer.flush();
        self.forget(peer);
        true
    }

    /// Whether a user may have another event's id, whose description has so many bytes: where several users are
    /// recorded, no user has more than is left for the others.
    pub(super) fn may_have_id(&mut self, peer: &Peer, bytes: usize) -> bool {
        let (ids_left, bytes_left) = self.registry.left();
        let share = self.registry.shares.entry(peer.id.uid).or_default();
        let is_within = |has: usize, more: usize, left: usize| match self.config.with_other_users {
            true => has + more <= left,
            false => more <= left,
        };
        is_within(share.0, 1, ids_left) && is_within(share.1, bytes, bytes_left)
    }

    /// Whether the program is one of the session's own user: another's must not hold the file of its rings
    /// [spec/session.md 6].
    pub(super) fn may_have_file(&self, peer: &Peer) -> bool {
        peer.id.uid == rustix::process::geteuid().as_raw()
    }

    /// The rings of a program of another user are not in --ring-dir.
    pub(super) fn rings_are_not_kept(&mut self, peer: &Peer) {
        if peer.channel == Channel::Main && peer.offer.is_none() && peer.serial.is_none() {
            self.rings_not_kept += 1;
        }
        self.caveat(format!(
            "rings of user {}'s programs are not kept in --ring-dir, because no program may hold a file that it could cut short under the \
             collector: should session and programs be killed, what was not written yet is lost; a session of that user keeps its rings",
            peer.id.uid
        ));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instances on a real tracefs: made, locked, set, removed, and left behind by the dead.

mod support;

use std::io::Write;
use std::sync::Arc;

use kymo_testing::skip_this;
use kymo_tracefs::{Error, Settings, Tracefs};
use support::{Helper, drain, exists, knob, ready_and_wait, remove_until, settings, tracefs};

#[test]
fn made_set_and_removed() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&Settings { overwrite: false, cpus: Some(vec![0]), ..settings() }).unwrap();
    let name = instance.name();
    assert!(name.starts_with(&format!("kymo-{}-", std::process::id())), "{name}");
    assert!(knob(&instance, "trace_clock").contains("[mono]"));
    assert_eq!(knob(&instance, "options/overwrite"), "0");
    assert_eq!(knob(&instance, "tracing_on"), "0");
    assert_eq!(u32::from_str_radix(&knob(&instance, "tracing_cpumask"), 16).unwrap(), 1);
    assert_eq!(instance.cpus(), [0]);
    instance.start().unwrap();
    assert_eq!(knob(&instance, "tracing_on"), "1");
    instance.remove().unwrap();
    assert!(!exists(&tracefs, &name));
}

#[test]
fn a_mount_of_our_own() {
    let tracefs = match Tracefs::detached() {
        Ok(tracefs) => tracefs,
        Err(error) => return skip_this(&format!("{error}")),
    };
    assert!(tracefs.root().starts_with("/proc/self/fd"));
    assert!(tracefs.clocks().unwrap().contains(&"mono".to_owned()));
    let head = tracefs.header_page().unwrap();
    assert!(head.contains("commit") && head.contains("char data"), "{head:?}");
    let instance = tracefs.create(&settings()).unwrap();
    let second = Tracefs::detached().unwrap();
    assert!(!second.remove_dead().contains(&instance.name()), "the lock holds across mounts");
    assert!(exists(&second, &instance.name()));
    instance.start().unwrap();
    let marker = instance.marker();
    assert!(marker.starts_with(format!("/proc/{}/fd", std::process::id())), "{}", marker.display());
    // Another process writes a mark.
    let status = std::process::Command::new("sh").arg("-c").arg("echo hello > \"$0\"").arg(&marker).status().unwrap();
    assert!(status.success());
    assert!(support::trace(&instance).contains("hello"));
    instance.remove().unwrap();
}

#[test]
fn what_the_dead_left_goes_and_the_living_stay() {
    if std::env::var_os("KYMO_TEST_HOLD").is_some() {
        let Some(tracefs) = tracefs() else { return };
        let instance = tracefs.create(&settings()).unwrap();
        return ready_and_wait(&instance.name());
    }
    let Some(tracefs) = tracefs() else { return };
    let mine = tracefs.create(&settings()).unwrap();
    let test = "what_the_dead_left_goes_and_the_living_stay";
    let holder = Helper::start(test, "KYMO_TEST_HOLD", "1");
    let name = holder.said.clone();
    assert!(!tracefs.remove_dead().contains(&name));
    assert!(exists(&tracefs, &name), "its session lives");
    holder.kill();
    remove_until(&tracefs, || !exists(&tracefs, &name));
    assert!(exists(&tracefs, &mine.name()));
    mine.remove().unwrap();
}

#[test]
fn instances_of_others_are_left_alone() {
    let Some(tracefs) = tracefs() else { return };
    let path = tracefs.root().join("instances").join(format!("other-{}", std::process::id()));
    std::fs::create_dir(&path).unwrap();
    let removed = tracefs.remove_dead();
    let there = path.exists();
    std::fs::remove_dir(&path).unwrap();
    assert!(there && !removed.iter().any(|name| name.starts_with("other")));
}

#[test]
fn removed_when_it_goes_by_a_panic_too() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&settings()).unwrap();
    let name = instance.name();
    let result = std::panic::catch_unwind(move || {
        let _held = &instance;
        panic!("on purpose");
    });
    assert!(result.is_err());
    assert!(!exists(&tracefs, &name));
}

#[test]
fn two_at_once_have_rings_of_their_own() {
    let Some(tracefs) = tracefs() else { return };
    let (one, two) = (tracefs.create(&settings()).unwrap(), tracefs.create(&settings()).unwrap());
    assert_ne!(one.name(), two.name());
    for instance in [&one, &two] {
        instance.start().unwrap();
    }
    std::fs::OpenOptions::new().write(true).open(one.marker()).unwrap().write_all(b"only here").unwrap();
    let entries = |instance: &kymo_tracefs::Instance| -> u64 {
        instance.cpus().iter().map(|&cpu| instance.reader(cpu).unwrap().stats().unwrap().entries).sum()
    };
    assert_eq!((entries(&one), entries(&two)), (1, 0));
    one.remove().unwrap();
    two.remove().unwrap();
}

#[test]
fn rings_have_the_size_asked_for() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&settings()).unwrap();
    let page = instance.page_bytes() as u64;
    let check = |asked: u64| {
        instance.set_ring_bytes(asked).unwrap();
        let made = instance.ring_bytes().unwrap();
        assert!(made >= asked && made <= asked + 3 * page, "{asked}: {made}");
    };
    check(256 * 1024);
    check(2 * 1024 * 1024);
    let before = instance.ring_bytes().unwrap();
    for huge in [1 << 50, u64::MAX] {
        let error = instance.set_ring_bytes(huge).unwrap_err();
        assert!(matches!(error, Error::RingTooLarge { .. }), "{error}");
    }
    assert_eq!(instance.ring_bytes().unwrap(), before);
    instance.remove().unwrap();
}

#[test]
fn sub_buffers_have_the_size_asked_for() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&Settings { subbuf_bytes: Some(16 * 1024), ..settings() }).unwrap();
    let expect = if instance.path().join("buffer_subbuf_size_kb").exists() { 16 * 1024 } else { 4096 };
    assert_eq!(instance.page_bytes(), expect);
    instance.remove().unwrap();
    for bad in [5000, 12 * 1024] {
        let result = tracefs.create(&Settings { subbuf_bytes: Some(bad), ..settings() });
        assert!(expect == 4096 || matches!(result, Err(Error::SubbufSize { .. })), "{bad}");
    }
}

#[test]
fn settings_that_cannot_be_leave_nothing_behind() {
    let Some(tracefs) = tracefs() else { return };
    let mine = || {
        let list = std::fs::read_dir(tracefs.root().join("instances")).unwrap();
        let prefix = format!("kymo-{}-", std::process::id());
        list.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(&prefix)).count()
    };
    // Other tests of this program run beside this one, so it has a process of its own.
    if std::env::var_os("KYMO_TEST_ALONE").is_none() {
        let alone = Helper::start("settings_that_cannot_be_leave_nothing_behind", "KYMO_TEST_ALONE", "1");
        return assert!(alone.finish());
    }
    let message = |settings: Settings| tracefs.create(&settings).unwrap_err().to_string();
    assert!(message(Settings { clock: "sundial".into(), ..settings() }).contains("it has local, global"));
    assert!(message(Settings { cpus: Some(vec![99_999]), ..settings() }).contains("CPU 99999"));
    assert!(message(Settings { cpus: Some(vec![]), ..settings() }).contains("empty"));
    let huge = message(Settings { ring_bytes_per_cpu: 1 << 50, ..settings() });
    assert!(huge.contains("smaller"), "{huge}");
    assert_eq!(mine(), 0);
    ready_and_wait("done");
}

#[test]
fn files_that_are_open_are_said() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&settings()).unwrap();
    let (name, reader) = (instance.name(), instance.reader(0).unwrap());
    let error = instance.remove().unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    drop(reader);
    // It lost its lock, so anybody may remove it.
    remove_until(&tracefs, || !exists(&tracefs, &name));
}

#[test]
fn files_that_close_in_time_do_not_matter() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&settings()).unwrap();
    let reader = instance.reader(0).unwrap();
    let removing = std::thread::spawn(move || instance.remove());
    drop(reader);
    let removed = removing.join().unwrap();
    assert!(removed.is_ok(), "{removed:?}");
}

#[test]
fn an_empty_ring_gives_nothing_and_short_room_is_refused() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&settings()).unwrap();
    let mut reader = instance.reader(0).unwrap();
    assert_eq!(drain(&mut reader, instance.page_bytes()).0, 0);
    let error = reader.read(&mut vec![0; instance.page_bytes() - 1]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    drop(reader);
    instance.remove().unwrap();
}

#[test]
fn without_rights_the_message_says_what_to_do() {
    if std::env::var_os("KYMO_TEST_NOBODY").is_some() {
        let error = Tracefs::find().and_then(|tracefs| tracefs.create(&settings())).unwrap_err();
        return ready_and_wait(&error.to_string());
    }
    if tracefs().is_none() {
        return;
    }
    // The program is copied to where nobody can run it from.
    let folder = tempfile::Builder::new().prefix("kymo").tempdir_in("/tmp").unwrap();
    let program = folder.path().join("test");
    kymo_testing::copy_program(&std::env::current_exe().unwrap(), &program);
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["--exact", "without_rights_the_message_says_what_to_do", "--nocapture"])
        .env("KYMO_TEST_NOBODY", "1")
        .current_dir("/")
        .stdin(std::process::Stdio::null())
        .output();
    let Ok(output) = output else { return skip_this("setpriv (util-linux) is missing") };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("run as root"), "{text}");
}

#[test]
fn found_where_nothing_is_mounted() {
    let test = "found_where_nothing_is_mounted";
    if std::env::var_os("KYMO_TEST_UNMOUNTED").is_some() {
        let tracefs = Tracefs::find_with(None).unwrap();
        assert!(tracefs.root().starts_with("/proc/self/fd"), "{}", tracefs.root().display());
        let instance = tracefs.create(&settings()).unwrap();
        assert!(!tracefs.events().unwrap().is_empty());
        instance.remove().unwrap();
        return ready_and_wait("done");
    }
    if tracefs().is_none() {
        return;
    }
    // A mount namespace of its own, in which every tracefs is unmounted.
    let script = "for point in $(awk '$3 == \"tracefs\" || $3 == \"debugfs\" { print $2 }' /proc/mounts); do \
                  umount -l \"$point\"; done; exec \"$0\" --exact \"$1\" --nocapture";
    let output = std::process::Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env("KYMO_TEST_UNMOUNTED", "1")
        .stdin(std::process::Stdio::null())
        .output();
    let Ok(output) = output else { return skip_this("unshare (util-linux) is missing") };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("ready done"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn makers_and_cleaners_at_once_do_not_hurt_each_other() {
    let Some(tracefs) = tracefs() else { return };
    let making = Arc::new(());
    std::thread::scope(|scope| {
        for making in [making.clone(), making.clone(), making.clone()] {
            let tracefs = &tracefs;
            scope.spawn(move || {
                // Goes with the thread, by a panic too.
                let _making = making;
                for _ in 0..20 {
                    let instance = tracefs.create(&settings()).unwrap();
                    assert_eq!(knob(&instance, "tracing_on"), "0");
                    instance.remove().unwrap();
                }
            });
        }
        scope.spawn(|| {
            while Arc::strong_count(&making) > 1 {
                tracefs.remove_dead();
            }
        });
    });
}

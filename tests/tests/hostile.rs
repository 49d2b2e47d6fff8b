// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs and collectors that break every rule: the other side lives on, and nothing of anybody else is lost.

use kymo_abi::desc::{Desc, EventDesc, Field, FieldType, encode};
use kymo_abi::wire::{DescEntry, FromProgram};
use kymo_tests::socket::{Packets, memory, message};
use kymo_tests::{Lab, Random, Recorded, Ring, times, trace};
use rustix::process::Signal;

/// What the honest program of a recording wrote is all there.
fn check_honest(lab: &Lab, recorded: &Recorded, threads: u64, records: u64) {
    // The rubbish of the other program is in the trace too, so it may be damaged; the order of time holds all the same.
    let read = trace::read(lab, &recorded.dir, &[]);
    assert!(read.code == 0 || read.code == 1, "kymo read ended with {}:\n{}", read.code, read.stderr);
    for writer in 0..threads {
        let of_it: Vec<_> = read
            .of("produce:rec")
            .filter(|record| record.number("writer") == writer && record.proc == "produce")
            .collect();
        let numbers: Vec<u64> = of_it.iter().map(|record| record.number("n")).collect();
        trace::assert_counts_up(&numbers, records);
    }
    let processes = recorded.summary["processes"].as_array().unwrap();
    // On a busy machine program and collector may find each other both ways: one entry is a duplicate then.
    let is_it = |process: &&serde_json::Value| process["comm"] == "produce" && process["outcome"] != "duplicate";
    let honest = processes.iter().find(is_it).unwrap();
    let lost: u64 = honest["lost"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!((lost, honest["records"].as_u64()), (0, Some(threads * records)));
}

#[test]
fn rubbish_in_its_own_rings_spoils_nobody_elses_records() {
    let mut random = Random::new("hostile", 77);
    for number in 0..times(12, 100) {
        let mut lab = Lab::new("hostile_rings");
        lab.ring(Ring::BOTH[number % 2]);
        let hostile = lab.cc("hostile.c");
        lab.cc("produce.c");
        let place = ["h", "c", "d", "hcd", "cz", "hd"][number / 2 % 6];
        let script = format!(
            "{} {place} {} 3000 >hostile.out 2>&1 & ./produce 2 20000 16 300; code=$?; wait; exit $code",
            hostile.display(),
            random.word() >> 1
        );
        let recorded = lab.record("trace").args(&["--ring-size", "4M", "--memory", "16G"]).run(&["sh", "-c", &script]);
        // Of a lane that was given up nobody knows what was lost.
        let is_known = recorded.summary["unknown_count"] == 0;
        assert_eq!(recorded.outcome.code, if is_known { 0 } else { 3 }, "{}", recorded.outcome.stderr);
        assert_eq!(recorded.outcome.number("produced"), 40_000);
        check_honest(&lab, &recorded, 2, 20_000);
        let is_said = recorded.outcome.stderr.contains("against the rules");
        assert_eq!(is_said, recorded.summary["damage"] != serde_json::json!([]) || recorded.lost_by("damaged") > 0);
        if place == "c" {
            assert!(is_said, "random control words were not noticed:\n{}", recorded.outcome.stderr);
        }
    }
}

/// HELLO of a program [spec/session.md 4].
fn hello(abi: u32, kind: u32, clock: u32, cpus: u32) -> Vec<u8> {
    let mut content = Vec::new();
    for word in [abi, std::process::id(), kind, clock, cpus, 0] {
        content.extend_from_slice(&word.to_le_bytes());
    }
    content.extend_from_slice(b"rubbish\0\0\0\0\0\0\0\0\0/bin/rubbish\0");
    message(1, &content)
}

/// What may come from a program that hates us.
fn rubbish(random: &mut Random) -> Vec<u8> {
    let length = random.below(40) as usize * random.below(30) as usize;
    match random.below(5) {
        0 => random.bytes(length),
        1 => message(random.below(24) as u32, &random.bytes(length)),
        2 => hello(
            random.below(3) as u32,
            random.below(4) as u32,
            random.below(4) as u32,
            random.word() as u32 >> random.below(32),
        ),
        // A length in the head that is not the packet's.
        3 => [random.below(24) as u32, random.word() as u32].iter().flat_map(|word| word.to_le_bytes()).collect(),
        _ => message(2, &descriptions(random)),
    }
}

/// DESCS whose descriptions have the right magic, and then anything.
fn descriptions(random: &mut Random) -> Vec<u8> {
    let length = 24 + random.below(20) as u32 * 8;
    let mut content = (random.below(4) as u32).to_le_bytes().to_vec();
    content.extend_from_slice(&length.to_le_bytes());
    content.extend_from_slice(&0x4f4d_594b_u32.to_le_bytes());
    content.extend_from_slice(&length.to_le_bytes());
    let kind_and_count = [random.below(3) as u16, random.below(40) as u16];
    content.extend(kind_and_count.iter().flat_map(|word| word.to_le_bytes()));
    content.extend(random.bytes(length as usize - 12));
    content
}

#[test]
fn rubbish_and_floods_on_the_session_socket() {
    let mut random = Random::new("session_socket", 5);
    let lab = Lab::new("session_socket");
    let program = lab.cc("produce.c");
    let recording = lab.record("trace").args(&["--ring-size", "4M", "--memory", "16G"]).attach();
    let socket = lab.sockets("s.").pop().expect("a session");
    let honest = lab.spawn(&program, &["2", "20000", "16", "1000"]);
    let mut open = Vec::new();
    for _ in 0..times(400, 20_000) {
        // One that cannot connect has been kept out, which is an answer too.
        let Ok(connection) = Packets::connect(&socket) else { continue };
        if random.below(3) > 0 {
            let _ = connection.send(&hello(1, 1 + random.below(2) as u32, 1, 2), None);
        }
        for _ in 0..random.below(12) {
            let packet = rubbish(&mut random);
            let descriptor = (random.below(8) == 0).then(|| memory(4096, false));
            if connection.send(&packet, descriptor.as_ref()).is_err() {
                break;
            }
        }
        // Some stay, and say nothing more.
        if random.below(4) == 0 && open.len() < 200 {
            open.push(connection);
        }
    }
    assert_eq!(honest.wait().expect(0).number("produced"), 40_000);
    // One that comes after all that is recorded too.
    assert_eq!(lab.run(&program, &["1", "500"]).code, 0);
    // Who said HELLO and then broke the rules might have had something to record.
    let recorded = recording.end(Signal::INT).expect(3);
    let read = recorded.read(&lab);
    assert_eq!(read.of("produce:rec").count(), 40_500);
    assert_eq!(recorded.lost(), 0);
}

/// What may come from a collector that hates us.
fn evil_collector(random: &mut Random, connection: &Packets) -> std::io::Result<()> {
    // HELLO and the descriptions, which we do not deserve.
    while connection.receive()?.first() != Some(&3) {}
    for _ in 0..1 + random.below(6) {
        let bytes = 1u64 << (12 + random.below(12));
        let descriptor = (random.below(3) > 0).then(|| memory(bytes, random.below(2) == 0));
        let packet = match random.below(6) {
            0 => some_bytes(random),
            1 => attach(random, bytes, false),
            2 => attach(random, bytes, true),
            3 => message(17, &some_bytes(random)),
            4 => message(16 + random.below(6) as u32, &some_bytes(random)),
            _ => message(19, &u64::MAX.to_le_bytes()),
        };
        connection.send(&packet, descriptor.as_ref())?;
    }
    let _ = connection.receive();
    Ok(())
}

/// ATTACH: with every number at random, or nearly right but for one.
fn attach(random: &mut Random, bytes: u64, nearly_right: bool) -> Vec<u8> {
    let mut words = [1, 1, 1, 3, 4096, 4096, 8192, 0, 20_480, 0, 7, 0].map(|word: u64| word as u32);
    words[8] = bytes as u32;
    if nearly_right {
        words[random.below(12) as usize] = random.word() as u32 >> random.below(32);
    } else {
        words = words.map(|_| random.word() as u32 >> random.below(32));
    }
    let mut content: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    content.extend(if random.below(4) == 0 { random.bytes(64) } else { vec![0; 64] });
    message(16, &content)
}

#[test]
fn rubbish_and_floods_on_a_programs_socket() {
    for ring in Ring::BOTH {
        let mut random = Random::new("program_socket", 6);
        let mut lab = Lab::new("program_socket");
        lab.ring(ring);
        let program = lab.cc("runner.c");
        let mut proc = lab.spawn(&program, &[]);
        proc.until("ready");
        let socket = lab.wait_for("a socket of the program", || lab.sockets("p.").pop());
        let mut open = Vec::new();
        for _ in 0..times(200, 5000) {
            let Ok(connection) = Packets::connect(&socket) else { continue };
            let _ = evil_collector(&mut random, &connection);
            if random.below(4) == 0 && open.len() < 20 {
                open.push(connection);
            }
        }
        drop(open);
        proc.say("burst 1000");
        proc.until("done 1000");
        let recording = lab.record("trace").args(&["--memory", "16G"]).args(&["-p", &proc.pid().to_string()]).attach();
        // Rubbish may have switched it on already, so only a record in the trace tells.
        lab.wait_for("a record in the trace", || {
            proc.say("burst 1");
            proc.until("done");
            recording.has_records().then_some(())
        });
        proc.say("burst 1000");
        let end: u64 = proc.until("done")[5..].parse().unwrap();
        let recorded = recording.end(Signal::INT).expect(0).lossless();
        let numbers = recorded.read(&lab).numbers("runner:rec", "n");
        assert!(numbers.len() > 1000 && numbers.iter().copied().eq(numbers[0]..end));
        assert_eq!(proc.wait().expect(0).stderr, "");
    }
}

fn some_bytes(random: &mut Random) -> Vec<u8> {
    let length = random.below(300) as usize;
    random.bytes(length)
}

/// A collector whose filters break the rules: the program says which, and why, and nothing else comes of them.
#[test]
fn filters_that_break_the_rules_are_answered() {
    let lab = Lab::new("bad_filters");
    let program = lab.cc("runner.c");
    let mut proc = lab.spawn(&program, &[]);
    proc.until("ready");
    let socket = lab.wait_for("a socket of the program", || lab.sockets("p.").pop());
    // Its name is there before anybody listens to it.
    let connection = lab.wait_for("a connection", || Packets::connect(&socket).ok());
    let hello = connection.receive().unwrap();
    while connection.receive().unwrap().first() != Some(&3) {}
    let word = |at: usize| u32::from_le_bytes(hello[at..at + 4].try_into().unwrap());
    // [session.md 4]: abi, kind, clock, lanes, ring, first control block, the rest as u64.
    let words = [word(8), word(16), word(20), 3, 4096, 4096, 8192, 0, 20_480, 0, 7, 0];
    let mut content: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    content.resize(content.len() + 64, 0);
    connection.send(&message(16, &content), Some(&memory(20_480, true))).unwrap();
    let answer = connection.receive().unwrap();
    assert_eq!((answer[0], &answer[16..20]), (5, &[0u8; 4][..]), "ATTACHED without an error");
    // An instruction [filter.md 6.1]: op, type, jumps, offset, aux, imm.
    let filter = |op: u8, payload_min: u16| {
        let mut content = 0u32.to_le_bytes().to_vec();
        content.extend([1u16, 0, payload_min, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
        content.extend([op, 4, 254, 255, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        message(21, &content)
    };
    for (packet, error) in [(filter(99, 16), 22u32), (filter(2, 17), 90), (filter(0, 16), 22)] {
        connection.send(&packet, None).unwrap();
        let answer = connection.receive().unwrap();
        let expect: Vec<u8> = [0u32, error].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(answer, message(6, &expect));
    }
    // A good one is not answered, and the connection lives on.
    connection.send(&filter(2, 16), None).unwrap();
    assert!(connection.receive().is_err(), "an answer to a filter that was taken");
    proc.say("burst 10");
    proc.until("done");
    assert_eq!(proc.wait().expect(0).stderr, "");
}

/// Memory of the collector at its peak, MiB.
fn peak_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
}

/// A description of `bytes` bytes or a little more, another one for each number.
fn large_description(number: u64, fields: usize) -> Vec<u8> {
    let name = |at: usize| format!("f{at}_{}", "x".repeat(200));
    let fields = (0..fields).map(|at| Field { name: name(at), ty: FieldType::Str }).collect();
    encode(&Desc::Event(EventDesc {
        provider: "flood".to_owned(),
        name: format!("event_{number}"),
        file: String::new(),
        line: 1,
        fields,
    }))
}

/// Sends descriptions until the collector has had enough; how many bytes it took.
fn flood(connection: &Packets, who: u64, bytes_max: usize, fields: usize) -> usize {
    let abi = kymo_abi::ABI_VERSION;
    connection.send(&hello(abi, 1, 1, 2), None).expect("it listens");
    // Once it has introduced itself it has all the time in the world.
    connection.send(&FromProgram::DescsEnd { generation: 1 }.encode(), None).expect("it listens");
    let (mut sent, mut index, mut content, mut bytes) = (0, 0u32, Vec::new(), 0);
    while sent < bytes_max {
        let desc = large_description(who << 32 | u64::from(index), fields);
        if bytes + desc.len() + 16 > 32_000 {
            let packet = FromProgram::Descs(std::mem::take(&mut content)).encode();
            // The collector serves the others meanwhile.
            let is_busy = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
            let mut result = connection.send(&packet, None);
            while result.as_ref().is_err_and(is_busy) {
                result = connection.send(&packet, None);
            }
            if result.is_err() {
                break;
            }
            sent += std::mem::take(&mut bytes);
        }
        bytes += desc.len() + 16;
        content.push(DescEntry { index: Some(index), desc });
        index += 1;
    }
    sent
}

/// What all programs of a user make the collector keep is bounded, however many they are, and who takes little is not
/// sent away.
#[test]
fn descriptions_of_many_programs_stay_within_a_bound() {
    // Large descriptions, and small ones, which take more beside their bytes.
    for fields in [32, 0] {
        let lab = Lab::new("flood_of_descriptions");
        let program = lab.cc("runner.c");
        // None of theirs is wanted: they are kept because somebody could want them later.
        let mut recording = lab.record("trace").args(&["-u", "runner:*"]).attach();
        let pid = recording.proc().pid();
        let socket = lab.sockets("s.").pop().expect("a session");
        let mut proc = lab.spawn(&program, &[]);
        proc.until("ready");
        kymo_tests::session::ask(&mut proc, "enabled", "enabled");
        let before = peak_mib(pid);
        let connections: Vec<Packets> = (0..40).map(|_| Packets::connect(&socket).expect("a connection")).collect();
        let sent: usize = std::thread::scope(|scope| {
            let each = |(who, connection)| scope.spawn(move || flood(connection, who as u64, 15 << 20, fields));
            let all: Vec<_> = connections.iter().enumerate().map(each).collect();
            all.into_iter().map(|one| one.join().expect("a count")).sum()
        });
        kymo_tests::session::ask(&mut proc, "burst 1000", "done");
        let peak = peak_mib(pid);
        let recorded = recording.end(Signal::INT);
        assert!(sent > 80 << 20, "only {sent} bytes were taken: the test says nothing");
        assert!(peak < before + 160, "{peak} MiB, {before} before, after {} MiB of descriptions", sent >> 20);
        let read = recorded.read(&lab);
        assert_eq!(read.of("runner:rec").count(), 1000);
        let processes = recorded.summary["processes"].as_array().expect("a list");
        let sent_away = processes.iter().filter(|process| process["outcome"].to_string().contains("64 MiB")).count();
        assert!(sent_away > 0, "{processes:?}");
    }
}

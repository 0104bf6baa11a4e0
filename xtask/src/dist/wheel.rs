//! `toolbus-V-py3-none-PLATFORM.whl`: a zip in which the program is a script, as `pip`, `uv` and `pipx`
//! put it into the folder of programs.

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use std::io::Write as _;

use super::contents::Contents;
use super::elf::Needs;
use super::sums::base64_of;
use super::{Packed, Release};

pub(super) fn package(release: &Release, contents: &Contents) -> Result<Packed, String> {
    let version = &release.version;
    let platforms = platforms(&release.triple, contents.needs);
    let info = format!("toolbus-{version}.dist-info");
    let tags: String =
        platforms.iter().map(|platform| format!("Tag: py3-none-{platform}\n")).collect();
    let readme = contents.texts.iter().find(|text| text.path == "README.md");
    let readme = readme.map(|text| String::from_utf8_lossy(&text.bytes)).unwrap_or_default();
    let mut files = vec![
        Packed::program(format!("toolbus-{version}.data/scripts/toolbus"), &contents.program),
        Packed::file(
            format!("{info}/METADATA"),
            format!(
                "Metadata-Version: 2.4\nName: toolbus\nVersion: {version}\n\
                 Summary: Any tool for any client, in seven protocols\n\
                 License-Expression: MIT OR Apache-2.0\nLicense-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\n\
                 Project-URL: Source, {}\nRequires-Python: >=3.7\n\
                 Description-Content-Type: text/markdown\n\n{readme}",
                release.repository
            ),
        ),
        Packed::file(
            format!("{info}/WHEEL"),
            format!("Wheel-Version: 1.0\nGenerator: toolbus xtask\nRoot-Is-Purelib: false\n{tags}"),
        ),
    ];
    for licence in &contents.licences {
        files.push(Packed::file(format!("{info}/licenses/{}", licence.path), &*licence.bytes));
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let record = format!("{info}/RECORD");
    let line = |file: &Packed| {
        format!("{},sha256={},{}\n", file.path, base64_of(&file.bytes), file.bytes.len())
    };
    let lines: String = files.iter().map(line).collect();
    // By custom it comes last, for it tells of all others.
    files.push(Packed::file(record.clone(), format!("{lines}{record},,\n")));
    let name = format!("toolbus-{version}-py3-none-{}.whl", platforms.join("."));
    Ok(Packed::file(name, zip(release, &files)?))
}

/// Where it runs, as wheels call it.
fn platforms(triple: &str, needs: Needs) -> Vec<String> {
    let processor = triple.split('-').next().unwrap_or_default();
    let processor = match processor {
        "powerpc64le" => "ppc64le",
        "riscv64gc" => "riscv64",
        "armv7" => "armv7l",
        other => other,
    };
    if triple.contains("-apple-") {
        let processor = if processor == "aarch64" { "arm64" } else { processor };
        return vec![format!("macosx_11_0_{processor}")];
    }
    match needs {
        Needs::Nothing => {
            let of = |kind: &str| format!("{kind}_{processor}");
            vec![of("manylinux_2_17"), of("musllinux_1_1")]
        }
        Needs::Glibc(major, minor) => vec![format!("manylinux_{major}_{minor}_{processor}")],
        Needs::Unknown => vec![format!("linux_{processor}")],
    }
}

/// A zip of files, in their order.
fn zip(release: &Release, files: &[Packed]) -> Result<Vec<u8>, String> {
    let (date, time) = dos_time(release.time);
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    for file in files {
        let packed = deflated(&file.bytes)?;
        let mut crc = Crc::new();
        crc.update(&file.bytes);
        // What both headers of a file say.
        let mut told = Vec::new();
        for number in [20, 0, 8, time, date] {
            told.extend(u16::to_le_bytes(number));
        }
        for number in [crc.sum(), length(&packed)?, length(&file.bytes)?] {
            told.extend(number.to_le_bytes());
        }
        let name = u16::try_from(file.path.len()).map_err(|_| "error: a name is too long")?;
        told.extend(name.to_le_bytes());
        told.extend([0, 0]);
        let at = length(&archive)?;
        archive.extend(b"PK\x03\x04");
        archive.extend(&told);
        archive.extend(file.path.as_bytes());
        archive.extend(packed);
        // Version 2.0, made on Unix.
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(told);
        directory.extend([0; 6]);
        directory.extend(((0o100_000 | file.mode()) << 16).to_le_bytes());
        directory.extend(at.to_le_bytes());
        directory.extend(file.path.as_bytes());
    }
    let (at, size) = (length(&archive)?, length(&directory)?);
    let count = u16::try_from(files.len()).map_err(|_| "error: too many files")?;
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    archive.extend([size.to_le_bytes(), at.to_le_bytes()].concat());
    archive.extend([0, 0]);
    Ok(archive)
}

fn length(bytes: &[u8]) -> Result<u32, String> {
    u32::try_from(bytes.len()).map_err(|_| "error: a wheel holds at most 4 GiB".to_owned())
}

fn deflated(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut writer = DeflateEncoder::new(Vec::new(), Compression::default());
    let done = writer.write_all(bytes).and_then(|()| writer.finish());
    done.map_err(|error| format!("error: cannot compress: {error}"))
}

/// Date and time as zips have them: of 1980 and later, in steps of two seconds.
fn dos_time(seconds: u64) -> (u16, u16) {
    let (year, month, day) = super::sums::date_of(seconds);
    let Some(years) = year.checked_sub(1980) else { return (1 << 5 | 1, 0) };
    let of_day = seconds % 86_400;
    let (hours, minutes, seconds) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    // Each of them fits into its bits.
    let date = years << 9 | month << 5 | day;
    let time = hours << 11 | minutes << 5 | (seconds / 2);
    (date as u16, time as u16)
}

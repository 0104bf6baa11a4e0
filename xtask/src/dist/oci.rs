//! `toolbus-V-T.oci.tar`: an image of one layer, as a layout that every tool for images reads.

use serde_json::{Value, json};

use super::archive::{gzipped, tar};
use super::contents::Contents;
use super::sums::{hex, time_of};
use super::{Packed, Release};

/// Who runs in it: nobody that the host knows.
const USER: &str = "65532:65532";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

pub(super) fn package(release: &Release, contents: &Contents) -> Result<Packed, String> {
    let mut blobs: Vec<Packed> = Vec::new();
    let layer = tar(
        release,
        vec![Packed::program("usr/bin/toolbus", &contents.program), Packed::folder("etc/toolbus/")],
    )?;
    let architecture = architecture(&release.triple);
    let created = time_of(release.time);
    let labels = json!({
        "org.opencontainers.image.source": release.repository,
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
    });
    let config = json!({
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": USER,
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Entrypoint": ["/usr/bin/toolbus"],
            "Cmd": ["serve", "--config", "/etc/toolbus/toolbus.toml"],
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hex(&layer))]},
        "history": [{"created": created, "created_by": "cargo xtask dist"}],
    });
    let layer = blob(LAYER, gzipped(&layer)?, &mut blobs);
    let config = config.to_string().into_bytes();
    let config = blob("application/vnd.oci.image.config.v1+json", config, &mut blobs);
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": kind,
        "config": config,
        "layers": [layer],
        "annotations": labels,
    });
    let mut manifest = blob(kind, manifest.to_string().into_bytes(), &mut blobs);
    manifest["platform"] = json!({"architecture": architecture, "os": "linux"});
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": release.version});
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    let mut files = vec![
        Packed::file("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#),
        Packed::file("index.json", index.to_string()),
    ];
    files.extend(blobs);
    let name = format!("toolbus-{}-{}.oci.tar", release.version, release.triple);
    Ok(Packed::file(name, tar(release, files)?))
}

/// Keeps a blob, and says what it is.
fn blob(kind: &str, bytes: Vec<u8>, blobs: &mut Vec<Packed>) -> Value {
    let sum = hex(&bytes);
    let told = json!({"mediaType": kind, "digest": format!("sha256:{sum}"), "size": bytes.len()});
    blobs.push(Packed::file(format!("blobs/sha256/{sum}"), bytes));
    told
}

/// What images call a processor.
fn architecture(triple: &str) -> &str {
    match triple.split('-').next().unwrap_or_default() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "i686" | "i586" => "386",
        "armv7" => "arm",
        "powerpc64le" => "ppc64le",
        "riscv64gc" => "riscv64",
        other => other,
    }
}

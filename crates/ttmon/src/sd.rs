//! `ttmon sd`: lists of hosts for `file_sd` and `http_sd` of Prometheus.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use ttmon_fleet::{Target, sd_document};
use ttmon_serve::{TextAnswer, serve_texts};

use crate::cli::{SdArgs, SdFrom};
use crate::failure::{Failure, complain};
use crate::output::Output;

/// Longest list that is read: 100,000 hosts with labels.
const LIST_BYTES_MAX: usize = 64 << 20;

/// Prints or serves the list.
pub(crate) fn run(args: &SdArgs) -> Result<(), Failure> {
    let list = |args: &SdArgs| -> Result<String, Failure> { Ok(format!("{:#}\n", sd_document(&targets(args)?))) };
    let Some(address) = &args.listen else {
        return Output::Stdout.write(list(args)?.as_bytes());
    };
    let listener = listener(address)?;
    let at = listener.local_addr().map_err(|error| Failure::new(format!("--listen {address}: {error}")))?;
    let args = SdArgs { input: args.input.clone(), listen: None, ..*args };
    // A list that cannot be read now must not end every target: the last good one stays.
    let last = Mutex::new(list(&args)?);
    complain(&format!("serving the list of hosts at http://{at}/sd"));
    let answer = move |path: &str| match path {
        "/sd" => {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            match list(&args) {
                Ok(fresh) => *last = fresh,
                Err(failure) => complain(&format!("{}; the list stays as it was", failure.message)),
            }
            Some(TextAnswer { content_type: "application/json", body: last.clone().into_bytes(), is_gzip: false })
        }
        _ => None,
    };
    serve_texts(listener, move |asked| Ok(answer(asked.path))).map_err(|error| Failure::new(format!("cannot serve: {error}")))
}

/// Listens on an address.
pub(crate) fn listener(text: &str) -> Result<TcpListener, Failure> {
    let address = text.strip_prefix("localhost:").map_or(text.to_owned(), |port| format!("127.0.0.1:{port}"));
    let address: SocketAddr =
        address.parse().map_err(|_| Failure::usage(format!("--listen {text}: give ADDR:PORT, such as 127.0.0.1:9479")))?;
    TcpListener::bind(address)
        .map_err(|error| Failure::new(format!("cannot listen on {address}: {error}; give another --listen ADDR:PORT")))
}

fn targets(args: &SdArgs) -> Result<Vec<Target>, Failure> {
    let (text, from) = match (&args.input, args.from) {
        (Some(path), _) => {
            let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
            (ttmon_files::read_text(path, LIST_BYTES_MAX).map_err(failed)?, path.display().to_string())
        }
        (None, SdFrom::Hosts) => return Err(Failure::usage("--from hosts reads a list; name its file with --input FILE")),
        (None, SdFrom::Slurm) => (output("sinfo", &["--noheader", "--Node", "--format", "%N %R %f"])?, "sinfo".to_owned()),
        (None, SdFrom::K8s) => (output("kubectl", &["get", "nodes", "-o", "json"])?, "kubectl".to_owned()),
    };
    let parsed = match args.from {
        SdFrom::Hosts => ttmon_fleet::hosts(&text, args.port),
        SdFrom::Slurm => ttmon_fleet::slurm(&text, args.port),
        SdFrom::K8s => ttmon_fleet::kubernetes(&text, args.port),
    };
    parsed.map_err(|error| Failure::new(format!("{from}: {error}")))
}

fn output(program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| Failure::new(format!("cannot run {program}: {error}; give its output with --input FILE")))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("{program} failed ({}): {}", output.status, why.lines().next().unwrap_or_default())));
    }
    String::from_utf8(output.stdout).map_err(|_| Failure::new(format!("{program} printed something that is not text")))
}

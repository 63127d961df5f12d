//! `ttmon sd`: prints or serves lists of hosts for Prometheus's `file_sd` and `http_sd`.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Mutex;

use ttmon_hosts::fleet::sd_document;
use ttmon_json::{Layout, to_string};
use ttmon_serve::{TextResponse, serve_texts};

use crate::cli::{SdArgs, SdFrom};
use crate::failure::{Failure, print_error};
use crate::output::Output;

/// Largest list that is read: 100,000 hosts with labels.
const LIST_BYTES_MAX: usize = 64 << 20;

pub(crate) fn run(args: &SdArgs) -> Result<(), Failure> {
    if (args.from, &args.input) == (SdFrom::Hosts, &None) {
        return Err(Failure::usage("--from hosts reads a list; name its file with --input FILE"));
    }
    let Some(address) = args.listen else {
        return Output::Stdout.write(list(args)?.as_bytes());
    };
    let (listener, at) = listener(address)?;
    // If the list cannot be read, the last good list is served, so that Prometheus does not drop all targets.
    let last = Mutex::new(list(args)?);
    let args = args.clone();
    print_error(&format!("serving the list of hosts at http://{at}/sd"));
    let answer = move |path: &str| match path {
        "/sd" => {
            let mut last = ttmon_os::lock(&last);
            match list(&args) {
                Ok(fresh) => *last = fresh,
                Err(failure) => print_error(&format!("{}; the list stays as it was", failure.message)),
            }
            Some(TextResponse { content_type: "application/json", body: last.clone().into_bytes() })
        }
        _ => None,
    };
    serve_texts(listener, answer).map_err(|error| Failure::new(format!("cannot serve: {error}")))
}

/// Listens on an address. Returns the address with its port.
fn listener(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let bound = TcpListener::bind(address).and_then(|listener| listener.local_addr().map(|at| (listener, at)));
    bound.map_err(|error| Failure::new(format!("cannot listen on {address}: {error}; give another --listen ADDR:PORT")))
}

fn list(args: &SdArgs) -> Result<String, Failure> {
    let (from, text) = match (&args.input, args.from) {
        (Some(path), _) => {
            let failed = |error| Failure::new(format!("{}: {error}", path.display()));
            (path.display().to_string(), ttmon_os::read_text(path, LIST_BYTES_MAX).map_err(failed)?)
        }
        (None, SdFrom::K8s) => ("kubectl".to_owned(), output("kubectl", &["get", "nodes", "-o", "json"])?),
        (None, _) => ("sinfo".to_owned(), output("sinfo", &["--noheader", "--Node", "--format", "%N %R %f"])?),
    };
    let parse = match args.from {
        SdFrom::Hosts => ttmon_hosts::fleet::hosts,
        SdFrom::Slurm => ttmon_hosts::fleet::slurm,
        SdFrom::K8s => ttmon_hosts::fleet::kubernetes,
    };
    let targets = parse(&text, args.port).map_err(|error| Failure::new(format!("{from}: {error}")))?;
    Ok(to_string(&sd_document(&targets), Layout::Pretty) + "\n")
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

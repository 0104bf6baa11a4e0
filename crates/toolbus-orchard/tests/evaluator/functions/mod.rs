//! Each function, with what it refuses.

mod collections;
mod encoding;
mod numbers;
mod text;
mod types;
mod world;

/// Each of the table in the documentation is there, and nothing else.
#[test]
fn all_functions_are_there() {
    let known: Vec<&str> = toolbus_orchard::function::names().collect();
    let documented = "abs ceil floor round signum max min sum pow log parseint strlen upper lower \
        title trimspace trim trimprefix trimsuffix chomp split join replace substr format \
        formatlist indent startswith endswith strcontains strrev repeat padleft padright regex \
        regexall length concat contains distinct element index keys values lookup merge range \
        reverse slice flatten compact chunklist coalesce coalescelist one sort setunion \
        setintersection setsubtract setproduct transpose zipmap matchkeys alltrue anytrue \
        jsonencode jsondecode base64encode base64decode urlencode urldecode hexencode hexdecode \
        csvdecode md5 sha1 sha256 sha512 hmacsha256 uuidv5 timestamp timeadd timediff timecmp \
        timeseries formatdate unixtime fromunix tostring tonumber tobool tolist toset tomap type \
        try can sensitive nonsensitive issensitive uuid randint randchoice randstring shuffle \
        file fileexists filebase64 basename dirname pathjoin";
    let mut documented: Vec<&str> = documented.split_whitespace().collect();
    documented.sort_unstable();
    assert_eq!(known, documented);
}

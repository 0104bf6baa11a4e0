//! Encodings and digests.

use crate::evaluator::evaluating::check;

#[test]
fn encodings() {
    check(&[
        (
            "jsonencode({ b = [1, 2.50, null, true], a = \"é\\u0001/<>\" })",
            "\"{\\\"a\\\":\\\"é\\\\u0001/<>\\\",\\\"b\\\":[1,2.5,null,true]}\"",
        ),
        ("jsonencode(null)", "\"null\""),
        ("jsondecode(\" {\\\"a\\\": [1.0, \\\"\\\\u00e9\\\", null]} \")", "{\"a\":[1,\"é\",null]}"),
        ("jsondecode(\"\")", "error bad_argument"),
        ("jsondecode(\"1e999\")", "error number_too_large"),
        ("jsondecode(\"{\\\"a\\\":1,\\\"a\\\":2}\").a", "2"),
        ("base64encode(\"Hello World\")", "\"SGVsbG8gV29ybGQ=\""),
        ("base64encode(\"\")", "\"\""),
        ("base64decode(\"SGVsbG8gV29ybGQ=\")", "\"Hello World\""),
        ("base64decode(\"YQ==\")", "\"a\""),
        ("base64decode(\"YR==\")", "error bad_argument"),
        ("base64decode(\"YQ\")", "error bad_argument"),
        ("base64decode(\"====\")", "error bad_argument"),
        ("base64decode(\"/w==\")", "error bad_argument"),
        ("urlencode(\"a b/é~\")", "\"a%20b%2F%C3%A9~\""),
        ("urldecode(\"a%20b%2F%C3%A9+\")", "\"a b/é+\""),
        ("urldecode(\"%2\")", "error bad_argument"),
        ("urldecode(\"%é\")", "error bad_argument"),
        ("hexencode(\"é\")", "\"c3a9\""),
        ("hexdecode(\"C3a9\")", "\"é\""),
        ("hexdecode(\"c\")", "error bad_argument"),
        ("hexdecode(\"zz\")", "error bad_argument"),
        (
            "csvdecode(\"a,b\\n1,\\\"x,\\\"\\\"y\\\"\\\"\\nz\\\"\\r\\n\\n2,\\n\")",
            "[{\"a\":\"1\",\"b\":\"x,\\\"y\\\"\\nz\"},{\"a\":\"2\",\"b\":\"\"}]",
        ),
        ("csvdecode(\"a\\n\")", "[]"),
        ("csvdecode(\"\")", "error bad_argument"),
        ("csvdecode(\"a,a\")", "error bad_argument"),
        ("csvdecode(\"a,b\\n1\")", "error bad_argument"),
        ("csvdecode(\"a\\n\\\"1\")", "error bad_argument"),
        ("md5(\"hello world\")", "\"5eb63bbbe01eeed093cb22bb8f5acdc3\""),
        ("sha1(\"hello world\")", "\"2aae6c35c94fcfb415dbe95f408b9ce91ee846ed\""),
        (
            "sha256(\"hello world\")",
            "\"b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9\"",
        ),
        ("substr(sha512(\"hello world\"), 0, 16)", "\"309ecc489c12d6eb\""),
        (
            "hmacsha256(\"key\", \"The quick brown fox jumps over the lazy dog\")",
            "\"f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8\"",
        ),
        ("uuidv5(\"dns\", \"www.terraform.io\")", "\"a5008fae-b28c-5ba5-96cd-82b4c53552d6\""),
        (
            "uuidv5(\"6ba7b810-9dad-11d1-80b4-00c04fd430c8\", \"www.terraform.io\")",
            "\"a5008fae-b28c-5ba5-96cd-82b4c53552d6\"",
        ),
        ("uuidv5(\"dsn\", \"x\")", "error bad_argument"),
    ]);
}

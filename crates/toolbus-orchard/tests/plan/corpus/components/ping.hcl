component "ping" {
  component "pong" "p" { source = "./pong.hcl" }
}

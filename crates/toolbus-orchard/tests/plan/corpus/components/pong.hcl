component "pong" {
  component "ping" "p" { source = "./ping.hcl" }
}

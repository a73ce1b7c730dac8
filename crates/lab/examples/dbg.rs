use txweir_lab::app::App;
use txweir_lab::dumbbell::*;
use txweir_lab::tcp::*;
use txweir_lab::*;
fn main() {
    let tcp = TcpConfig { congestion: Congestion::None, ..TcpConfig::default() };
    let config = DumbbellConfig { client: tcp, server: tcp, lose_every: 97, ..DumbbellConfig::default() };
    let mut net = Dumbbell::new(&config, [(App::stream(Some(2_000_000)), App::sink())]);
    for s in 1..80 {
        net.run(Instant::from_millis(s*1000));
        println!("{s} {:?} {:?} {:?} {:?} q {} b {:?}", net.client(0).state(), net.server(0).state(), net.server(0).app(), net.client(0).stats(), net.client(0).send_queue(), net.bottleneck());
    }
}

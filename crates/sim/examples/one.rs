fn main() {
    let a: Vec<String> = std::env::args().collect();
    let s = warmset_sim::shipped(&a[1]).unwrap();
    let t = std::time::Instant::now();
    let r = warmset_sim::run(&warmset_sim::timed(&s, &a[2]), &a[2]).unwrap();
    eprintln!("{:?} {:?}", t.elapsed(), warmset_sim::best_static(&s));
    for p in &r.timeline {
        println!(
            "{:6.1} {:6.1} p {:.3} mig {:.2} {:?}",
            p.at_s,
            p.gbps,
            p.default_share,
            p.migration_gbps,
            p.latency_ns.iter().map(|l| *l as i32).collect::<Vec<_>>()
        );
    }
}

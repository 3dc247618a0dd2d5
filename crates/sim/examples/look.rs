fn main() {
    let t = std::time::Instant::now();
    let r = warmset_sim::report(1, 2);
    for c in &r.cells {
        println!(
            "{:16} {:26} {:15} {:8.3} {:?} {:?}",
            c.table, c.case, c.policy, c.simulated, c.published, c.ok
        );
    }
    for a in &r.warm {
        println!(
            "{:14} {:20} warm {:6.1} six {:.3} ({}) static {:.3} mig {:.4} conv {:.1} / {:.1}",
            a.table,
            a.case,
            a.warm,
            a.of_six,
            a.best_of_six,
            a.of_static,
            a.migration_share,
            a.convergence_s,
            a.convergence_hemem_colloid_s
        );
    }
    let asked: Vec<_> = r.cells.iter().filter_map(|c| c.ok).collect();
    eprintln!("{} of {} in {:?}", asked.iter().filter(|o| **o).count(), asked.len(), t.elapsed());
}
